# One way to declare a library, a program and a test of this project.
#   spscope_library(NAME DIR <folder> DEPS <targets>)  every *.cpp of the folder (not of its sub-folders)
#   spscope_test(NAME DIR <folder> DEPS <targets>)     every *_test.cpp of the folder, one GoogleTest program

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(SPSCOPE_SANITIZE "" CACHE STRING "address, thread or empty; needs SPSCOPE_TORCH=OFF")
if(SPSCOPE_SANITIZE)
  if(SPSCOPE_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
  else()
    add_compile_options(-fsanitize=${SPSCOPE_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${SPSCOPE_SANITIZE})
  endif()
endif()

option(SPSCOPE_FUZZ "Build the fuzzers with libFuzzer; needs clang" OFF)
if(SPSCOPE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,float-cast-overflow -fno-sanitize-recover=float-cast-overflow)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(spscope_options INTERFACE)
# maybe-uninitialized and stringop-overread only ever fire inside Boost with g++ 12.
target_compile_options(spscope_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
target_include_directories(spscope_options INTERFACE ${CMAKE_SOURCE_DIR})

function(spscope_library name)
  cmake_parse_arguments(ARG "" "DIR" "DEPS;PRIVATE_DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${ARG_DIR}/*.cpp)
  if(NOT sources)  # a room that is still empty
    file(WRITE ${CMAKE_BINARY_DIR}/empty/${name}.cpp "")
    set(sources ${CMAKE_BINARY_DIR}/empty/${name}.cpp)
  endif()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC spscope_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

function(spscope_test name)
  cmake_parse_arguments(ARG "" "DIR;TIMEOUT" "DEPS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${ARG_DIR}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE spscope_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE SPSCOPE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" SPSCOPE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS ${name})  # an empty value would swallow the next property's name
  endif()
  # One thread: small ops spin in OpenMP barriers otherwise. Two properties, since a list does not survive this command.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
               ENVIRONMENT OMP_NUM_THREADS=1 ENVIRONMENT_MODIFICATION GOMP_SPINCOUNT=set:0)
endfunction()
