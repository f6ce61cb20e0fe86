# SPDX-License-Identifier: Apache-2.0
# Foreign libraries as targets dep_<name>. tools/deps.sh puts the pinned sources, the built
# llama.cpp and FAISS under build/deps; everything else comes from the system through pkg-config.
#
#   THEMIS_DEPS          where tools/deps.sh put things
#   THEMIS_CPU           a level of x86-64 such as x86-64-v3: what tools/deps.sh package built for any CPU
#                        of that level; the program refuses to start on others. Empty: for this CPU
#   THEMIS_SYSTEM_LLAMA  use an installed llama.cpp (libllama and libllama-common)
#   THEMIS_SYSTEM_FAISS  use an installed FAISS, such as Debian's (on in the dev preset)

set(THEMIS_DEPS ${CMAKE_SOURCE_DIR}/build/deps CACHE PATH "Output of tools/deps.sh")
set(THEMIS_CPU "" CACHE STRING "Level of x86-64 that the program is for")
if(THEMIS_CPU STREQUAL "package")
  if(CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "x86_64")
    set(THEMIS_CPU x86-64-v3)
  else()
    set(THEMIS_CPU generic)
  endif()
endif()
set(built ${THEMIS_DEPS}/${THEMIS_CPU})

if(EXISTS ${built}/llama/lib/libllama.a)
  set(system_llama_default OFF)
else()
  set(system_llama_default ON)
endif()
option(THEMIS_SYSTEM_LLAMA "Use the system's llama.cpp" ${system_llama_default})

if(EXISTS ${built}/faiss/lib/libfaiss.a)
  set(system_faiss_default OFF)
else()
  set(system_faiss_default ON)
endif()
option(THEMIS_SYSTEM_FAISS "Use the system's FAISS" ${system_faiss_default})

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# dep_from_pkg(name module...): an imported target over pkg-config modules.
function(dep_from_pkg name)
  pkg_check_modules(pc_${name} REQUIRED IMPORTED_TARGET GLOBAL ${ARGN})
  add_library(dep_${name} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(dep_${name} INTERFACE PkgConfig::pc_${name})
endfunction()

# dep_from_library(name header library...): the same for libraries without a .pc file.
function(dep_from_library name header)
  find_path(${name}_header ${header})
  if(NOT ${name}_header)
    message(FATAL_ERROR "${header} is missing; run tools/deps.sh build")
  endif()
  add_library(dep_${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(dep_${name} INTERFACE ${${name}_header})
  foreach(library ${ARGN})
    find_library(${name}_${library} ${library})
    if(NOT ${name}_${library})
      message(FATAL_ERROR "lib${library} is missing; run tools/deps.sh build")
    endif()
    target_link_libraries(dep_${name} INTERFACE ${${name}_${library}})
  endforeach()
endfunction()

# dep_from_source(name SOURCES ... INCLUDE dir): a static library without our warnings and
# sanitizers, optimised in every build type.
function(dep_from_source name)
  cmake_parse_arguments(D "" "INCLUDE" "SOURCES" ${ARGN})
  foreach(source ${D_SOURCES})
    if(NOT EXISTS ${source})
      message(FATAL_ERROR "${source} is missing; run tools/deps.sh build")
    endif()
  endforeach()
  add_library(dep_${name} STATIC ${D_SOURCES})
  target_include_directories(dep_${name} PRIVATE ${D_INCLUDE})
  target_include_directories(dep_${name} SYSTEM INTERFACE ${D_INCLUDE})
  target_compile_options(dep_${name} PRIVATE -w -O2 -fvisibility=hidden)
endfunction()

dep_from_pkg(uv libuv)
dep_from_pkg(ssl openssl)
dep_from_pkg(icu icu-uc icu-i18n)
dep_from_pkg(pcre2 libpcre2-8)
dep_from_pkg(xxhash libxxhash)
dep_from_pkg(geographic geographiclib)
dep_from_pkg(edit libedit)
dep_from_pkg(xml libxml-2.0)
dep_from_pkg(nghttp2 libnghttp2)
dep_from_pkg(zlib zlib)
dep_from_pkg(curl libcurl)
dep_from_pkg(inih inih)
dep_from_pkg(cmocka cmocka)
dep_from_library(rocksdb rocksdb/c.h rocksdb)
dep_from_library(stemmer libstemmer.h stemmer)

dep_from_source(yyjson INCLUDE ${THEMIS_DEPS}/src/yyjson
                SOURCES ${THEMIS_DEPS}/src/yyjson/yyjson.c)
dep_from_source(llhttp INCLUDE ${THEMIS_DEPS}/src/llhttp/include
                SOURCES ${THEMIS_DEPS}/src/llhttp/src/api.c ${THEMIS_DEPS}/src/llhttp/src/http.c
                        ${THEMIS_DEPS}/src/llhttp/src/llhttp.c)

# dep_llama is llama.h and ggml.h; dep_llama_common adds chat templates and grammars (C++ only).
add_library(dep_llama INTERFACE IMPORTED GLOBAL)
add_library(dep_llama_common INTERFACE IMPORTED GLOBAL)
if(THEMIS_SYSTEM_LLAMA)
  find_path(llama_header llama.h PATH_SUFFIXES llama)
  find_path(llama_common_header chat.h PATH_SUFFIXES llama/common llama-common)
  find_library(llama_library llama)
  find_library(llama_common_library llama-common)
  if(NOT llama_header OR NOT llama_library OR NOT llama_common_header OR NOT llama_common_library)
    message(FATAL_ERROR "no llama.cpp with its common library found; run tools/deps.sh build "
                        "and configure with -DTHEMIS_SYSTEM_LLAMA=OFF")
  endif()
  target_include_directories(dep_llama INTERFACE ${llama_header})
  target_link_libraries(dep_llama INTERFACE ${llama_library})
  target_include_directories(dep_llama_common INTERFACE ${llama_common_header})
  target_link_libraries(dep_llama_common INTERFACE ${llama_common_library} dep_llama)
else()
  set(llama ${built}/llama)
  if(NOT EXISTS ${llama}/lib/libllama.a)
    message(FATAL_ERROR "${llama} is missing; run tools/deps.sh build")
  endif()
  target_include_directories(dep_llama INTERFACE ${llama}/include)
  target_link_libraries(dep_llama INTERFACE
    ${llama}/lib/libllama.a ${llama}/lib/libggml.a ${llama}/lib/libggml-cpu.a
    ${llama}/lib/libggml-base.a Threads::Threads stdc++ m ${CMAKE_DL_LIBS})
  target_include_directories(dep_llama_common INTERFACE
    ${llama}/include/common ${llama}/include/vendor)
  target_link_libraries(dep_llama_common INTERFACE
    ${llama}/lib/libllama-common.a ${llama}/lib/libllama-common-base.a
    ${llama}/lib/libcpp-httplib.a dep_llama)
endif()

# FAISS needs OpenMP's run-time library, BLAS and LAPACK, although graphs use none of the latter two.
add_library(dep_faiss INTERFACE IMPORTED GLOBAL)
if(THEMIS_SYSTEM_FAISS)
  find_path(faiss_header faiss/IndexHNSW.h)
  find_library(faiss_library faiss)
else()
  set(faiss_header ${built}/faiss/include)
  set(faiss_library ${built}/faiss/lib/libfaiss.a)
endif()
find_library(blas_library blas)
find_library(lapack_library lapack)
find_package(OpenMP REQUIRED COMPONENTS CXX)
if(NOT faiss_header OR NOT EXISTS "${faiss_library}" OR NOT blas_library OR NOT lapack_library)
  message(FATAL_ERROR "FAISS, BLAS or LAPACK is missing; run tools/deps.sh test")
endif()
target_include_directories(dep_faiss INTERFACE ${faiss_header})
target_link_libraries(dep_faiss INTERFACE ${faiss_library} ${lapack_library} ${blas_library}
                                          OpenMP::OpenMP_CXX stdc++ m)
