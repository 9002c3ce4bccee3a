# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the CUDA libraries that libtorch_cuda.so needs: every function does nothing and says that it went well; those of the runtime
that matter are in cudart.cpp. So the host code of CUDA kernels runs where there is no GPU, and asks torch's own allocator for memory.

make.py OBJDUMP CXX TORCH_LIB_FOLDER INCLUDE_FOLDER OUT_FOLDER: one library for each, by its soname, and `list`, the order to load them in."""
import collections
import pathlib
import re
import subprocess
import sys

objdump, cxx, torch, include, out = sys.argv[1:6]
out = pathlib.Path(out)
out.mkdir(parents=True, exist_ok=True)
here = pathlib.Path(__file__).parent
# Symbols without a version, by how they begin.
BY_NAME = {"cusparseLt": "libcusparseLt.so.0", "nccl": "libnccl.so.2", "nvshmem": "libnvshmem_host.so.3", "cuFile": "libcufile.so.0", "cu": "libcuda.so.1"}

symbols = collections.defaultdict(set)  # soname -> names
versions = {}                           # soname -> version of its symbols
for library in ("libtorch_cpu.so", "libtorch_cuda.so", "libc10_cuda.so", "libtorch_nvshmem.so", "libcaffe2_nvrtc.so"):
    path = pathlib.Path(torch) / library
    if not path.exists():
        continue
    for line in subprocess.run([objdump, "-T", path], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if "*UND*" not in words or not re.match(r"_{0,2}(cu(?!pti)|nccl|nvrtc|nvshmem)", words[-1]):
            continue
        version = words[-2].strip("()")
        soname = next((so for start, so in BY_NAME.items() if words[-1].startswith(start)), None) if version in ("Base", "NVSHMEM") else version
        if soname:
            symbols[soname].add(words[-1])
            if version != "Base":
                versions[soname] = version
for soname in BY_NAME.values():
    symbols[soname]  # needed by name, whatever is used of it

made_by_hand = set(re.findall(r"^[\w ]+?[ *]+((?:__)?cu\w+)\(", (here / "cudart.cpp").read_text(), re.M))
for soname, names in symbols.items():
    source, script = out / "stubs.cpp", out / "versions.map"
    by_hand = [str(here / "cudart.cpp")] if soname.startswith("libcudart") else []
    source.write_text('extern "C" {\n' + "".join(f"long {n}() {{ return 0; }}\n" for n in sorted(names) if not (by_hand and n in made_by_hand)) + "}\n")
    command = [cxx, "-std=c++20", "-shared", "-fPIC", "-O0", "-w", "-I", include, "-o", str(out / soname), f"-Wl,-soname,{soname}", str(source), *by_hand]
    if soname in versions:
        script.write_text(versions[soname] + " { global: *; };\n")
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)
(out / "list").write_text("".join(f"{out / so}\n" for so in sorted(symbols)))
