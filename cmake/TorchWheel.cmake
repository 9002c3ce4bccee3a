# Imported targets for the libtorch of PyPI's wheel. find_package(Torch) is not used: it drags in CUDA language support
# that Debian's CMake does not have for this version.
#   torch::cpu   headers, libtorch_cpu, libc10             (what the program links)
#   torch::cuda  torch::cpu + libtorch_cuda, libc10_cuda, headers of CUDA runtime, NCCL, CUPTI, NVTX (the GPU library)

set(SPSCOPE_TORCH_DIR "" CACHE PATH "The 'torch' folder of an installed wheel; empty: that of .venv")
if(NOT SPSCOPE_TORCH_DIR)
  file(GLOB _found ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  if(NOT _found)
    message(FATAL_ERROR "No torch found in .venv. './run build' installs it; or set SPSCOPE_TORCH_DIR.")
  endif()
  list(GET _found 0 SPSCOPE_TORCH_DIR)
endif()
get_filename_component(_site ${SPSCOPE_TORCH_DIR} DIRECTORY)

add_library(torch::cpu INTERFACE IMPORTED)
set_target_properties(torch::cpu PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${SPSCOPE_TORCH_DIR}/include;${SPSCOPE_TORCH_DIR}/include/torch/csrc/api/include")
target_link_libraries(torch::cpu INTERFACE
  "${SPSCOPE_TORCH_DIR}/lib/libtorch_cpu.so" "${SPSCOPE_TORCH_DIR}/lib/libc10.so")
target_link_options(torch::cpu INTERFACE
  "LINKER:--no-as-needed" "LINKER:--allow-shlib-undefined" "LINKER:-rpath,${SPSCOPE_TORCH_DIR}/lib" "LINKER:--disable-new-dtags")

set(SPSCOPE_HAVE_TORCH_CUDA OFF)
if(EXISTS ${SPSCOPE_TORCH_DIR}/lib/libtorch_cuda.so)
  file(GLOB _nvidia ${_site}/nvidia/cu*/include)
  file(GLOB _nccl ${_site}/nvidia/nccl/include)
  file(GLOB _cudart ${_site}/nvidia/cu*/lib/libcudart.so.*)
  file(GLOB _ncclso ${_site}/nvidia/nccl/lib/libnccl.so.*)
  if(_nvidia AND _nccl AND _cudart AND _ncclso)
    set(SPSCOPE_HAVE_TORCH_CUDA ON)
    list(GET _cudart 0 _cudart)
    list(GET _ncclso 0 _ncclso)
    get_filename_component(_cudart_dir ${_cudart} DIRECTORY)
    get_filename_component(_nccl_dir ${_ncclso} DIRECTORY)
    add_library(torch::cuda INTERFACE IMPORTED)
    set_target_properties(torch::cuda PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_nvidia};${_nccl}")
    target_link_libraries(torch::cuda INTERFACE torch::cpu
      "${SPSCOPE_TORCH_DIR}/lib/libc10_cuda.so" ${_cudart} ${_ncclso})
    target_link_options(torch::cuda INTERFACE "LINKER:-rpath,${_cudart_dir}" "LINKER:-rpath,${_nccl_dir}")
  endif()
endif()
