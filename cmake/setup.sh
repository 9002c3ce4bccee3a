# SPDX-License-Identifier: Apache-2.0
# Sourced by ./run, in the repository's root: makes the machine ready and builds a preset.
# Expects $ui (ON|OFF), and $bench=ON for ./run bench. What is already done costs milliseconds: packages are asked for by name; torch and the
# configuration leave a stamp that holds the hash of what they were made from.

packages=(g++ cmake ninja-build ccache python3-venv
  libsimdjson-dev libboost-dev libboost-graph-dev nlohmann-json3-dev libcli11-dev libexpected-dev libxxhash-dev libtomlplusplus-dev
  libsqlite3-dev zlib1g-dev libedit-dev libmimalloc-dev
  libgloo-dev # for its headers: libtorch brings the code
  libgtest-dev libgmock-dev)

# What the fuzzers need besides: 45 MB, some seconds.
fuzzPackages=(clang libclang-rt-dev)
# What the window needs besides, with a font and a screen for its tests: 250 MB.
uiPackages=(pkg-config qt6-base-dev libqt6opengl6-dev libimgui-dev libgl1-mesa-dri fonts-dejavu-core xvfb xauth)
# What ./run bench needs besides.
benchPackages=(libbenchmark-dev)

say() { printf '%s\n' "$*"; }
die() {
  printf 'run: %s\n' "$*" >&2
  exit 1
}
hashOf() { cat "$@" | sha256sum | cut -c1-16; }
seconds() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s", b - a }'; }

# step TEXT COMMAND...: runs it with its output in build/logs (the end of it is shown when it fails), says how long it took.
step() {
  local text=$1 start=$EPOCHREALTIME log
  shift
  mkdir -p build/logs
  log=build/logs/$(tr -cs 'a-zA-Z0-9' '-' <<<"$text" | cut -c1-40).log
  printf '== %s ... ' "$text"
  if "$@" >"$log" 2>&1; then
    seconds "$start"
    printf '\n'
  else
    printf 'failed after %s\n' "$(seconds "$start")"
    tail -n 40 "$log" >&2
    die "all of the output is in $log"
  fi
}

parallelJobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo) # a file that includes torch takes up to 1.5 GB
  [ "$memory" -ge 1 ] || memory=1
  echo "${SPSCOPE_JOBS:-$((cores < memory ? cores : memory))}"
}

# --- packages -------------------------------------------------------------------------------------------------------
missingPackages() {
  comm -23 <(printf '%s\n' "$@" | sort) \
    <(dpkg-query -W -f='${Package} ${db:Status-Abbrev}\n' "$@" 2>/dev/null | awk '$2 == "ii" { print $1 }' | sort)
}

ensurePackages() {
  local missing sudo=()
  if ! command -v apt-get >/dev/null; then
    say "== no apt-get here: going on without looking for packages. Needed, by their Debian names: $*"
    return
  fi
  mapfile -t missing < <(missingPackages "$@")
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      sudo=(sudo)
      sudo -v # asks for the password here, not behind a log file
    else
      say "Packages are missing and this user may not install them. Please run, then start again:"
      say "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
      exit 1
    fi
  fi
  step "apt-get update" "${sudo[@]}" apt-get update -q
  step "installing ${missing[*]}" "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# --- torch ----------------------------------------------------------------------------------------------------------
hasGpu() { [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; }

# torchSet lean|full: the set that this machine needs.
torchSet() { if hasGpu; then echo full; else echo "$1"; fi; }

torchStamp() { echo ".venv/.spscope-$1-$(hashOf "cmake/torch-requirements-$1.txt")"; }

torchReady() {
  [ -n "${SPSCOPE_TORCH:-}" ] || [ -e "$(torchStamp "$1")" ] || { [ "$1" = lean ] && [ -e "$(torchStamp full)" ]; }
}

# The folder handed to CMake; empty: CMake looks into .venv.
torchFolder() {
  [ -n "${SPSCOPE_TORCH:-}" ] || return 0
  local folder=$SPSCOPE_TORCH
  [ -e "$folder/lib/libtorch_cpu.so" ] || folder=$folder/torch # its parent, site-packages, will do too
  [ -e "$folder/lib/libtorch_cpu.so" ] || die "SPSCOPE_TORCH=$SPSCOPE_TORCH holds no lib/libtorch_cpu.so"
  (cd "$folder" && pwd)
}

torchPython() {
  if [ -z "${SPSCOPE_TORCH:-}" ]; then
    echo .venv/bin/python
  else
    # site-packages/torch lies in <prefix>/lib/python3.x
    echo "$(torchFolder)/../../../../bin/python"
  fi
}

makeVenv() {
  local python
  for python in "${SPSCOPE_PYTHON:-python3}" /usr/bin/python3; do
    if "$python" -c 'import sys, ensurepip; assert sys.version_info >= (3, 11)' 2>/dev/null; then
      "$python" -m venv .venv
      return
    fi
  done
  echo "no Python of version 3.11 or later with venv: install python3-venv, or name one in SPSCOPE_PYTHON"
  return 1
}

ensureTorch() {
  local kind=$1
  torchReady "$kind" && return
  [ -x .venv/bin/python ] || step "making .venv" makeVenv
  rm -f .venv/.spscope-*
  step "installing torch into .venv ($kind set)" .venv/bin/python -m pip install -q --disable-pip-version-check \
    --no-deps -r "cmake/torch-requirements-$kind.txt"
  touch "$(torchStamp "$kind")"
}

# What tests need in Python. Into .venv only: an installed torch elsewhere is not ours to add to.
ensureTestPackages() {
  local stamp
  [ -z "${SPSCOPE_TORCH:-}" ] || return 0
  stamp=.venv/.spscope-tests-$(hashOf cmake/test-requirements.txt)
  [ -e "$stamp" ] && return
  step "installing what tests need into .venv" .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps -r cmake/test-requirements.txt
  touch "$stamp"
}

# --- disk -----------------------------------------------------------------------------------------------------------
# Asked before anything is installed: what is still missing says how much is needed.
checkDisk() {
  local kind=$1 need=0 free
  if ! torchReady "$kind"; then
    if [ "$kind" = full ]; then need=11000; else need=4000; fi # installed, and the wheels while they are unpacked
  fi
  [ -d build/dev ] || [ -d build/release ] || need=$((need + 2000))
  [ "$need" -eq 0 ] && return
  free=$(df -Pm . | awk 'NR == 2 { print $4 }')
  [ "$free" -ge "$need" ] || die "$((need / 1000)) GB of free disk are needed here, $free MB are free"
}

# setUp lean|full: everything before the first build.
setUp() {
  local kind
  kind=$(torchSet "$1")
  checkDisk "$kind"
  ensurePackages "${packages[@]}"
  ensureTorch "$kind"
}

# --- build ----------------------------------------------------------------------------------------------------------
configure() {
  local preset=$1 torch stamp=build/$1/.configured wanted qt
  torch=$(torchFolder)
  # Qt that was installed since is looked for again.
  qt=$(compgen -G '/usr/lib*/cmake/Qt6' || compgen -G '/usr/lib/*/cmake/Qt6' || true)
  wanted="$PWD $ui ${bench:-OFF} $torch ${qt%%$'\n'*} $(hashOf CMakePresets.json)"
  [ -e "build/$preset/build.ninja" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
  # A tree that was moved or copied: CMake refuses a cache made elsewhere.
  grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "build/$preset/CMakeCache.txt" || rm -rf "build/$preset"
  local options=(--preset "$preset" "-DSPSCOPE_TORCH_DIR=$torch")
  case "$preset" in
    asan | tsan | fuzz) ;;
    *) options+=("-DSPSCOPE_UI=$ui" "-DSPSCOPE_BENCH=${bench:-OFF}") ;;
  esac
  step "configuring build/$preset" cmake "${options[@]}"
  printf '%s' "$wanted" >"$stamp"
}

# Two clones of the same sources, wherever they lie, share what ccache holds.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  configure "$preset"
  if [ -t 1 ]; then
    local start=$EPOCHREALTIME
    say "== building build/$preset${*:+ ($*)}"
    ninja -C "build/$preset" -j "$(parallelJobs)" "$@" || die "the build failed"
    say "   built in $(seconds "$start")"
  else
    step "building build/$preset${*:+ ($*)}" ninja -C "build/$preset" -j "$(parallelJobs)" "$@"
  fi
}
