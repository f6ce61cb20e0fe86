# SPDX-License-Identifier: Apache-2.0
# Compiler flags of our own code, as the interface target themis_flags. Nothing here is global except
# the flags of a build type, so third-party code is built without our warnings and sanitizers.
#
#   THEMIS_SANITIZE  "", "address;undefined" or "thread"
#   THEMIS_WERROR    warnings are errors (on in the dev preset)
#   THEMIS_COVERAGE  gcov instrumentation

set(THEMIS_SANITIZE "" CACHE STRING "Sanitizers of our own code: address;undefined or thread")
option(THEMIS_WERROR "Treat warnings as errors" OFF)
option(THEMIS_COVERAGE "Instrument for coverage" OFF)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

# Assertions stay on in every build type: a bug aborts instead of answering wrongly.
foreach(lang C CXX)
  set(CMAKE_${lang}_FLAGS_RELWITHDEBINFO "-O2 -g")
  set(CMAKE_${lang}_FLAGS_RELEASE "-O2")
  set(CMAKE_${lang}_FLAGS_DEBUG "-O1 -g")
endforeach()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(themis_flags INTERFACE)
target_compile_options(themis_flags INTERFACE
  -Wall -Wextra -Wshadow -Wvla -Wpointer-arith -Wundef -Wformat-security -Wno-format-truncation
  -Wno-error=maybe-uninitialized
  $<$<COMPILE_LANGUAGE:C>:-std=gnu17>
  $<$<COMPILE_LANGUAGE:CXX>:-std=gnu++17>
  $<$<COMPILE_LANGUAGE:C>:-Werror=implicit-function-declaration>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  -D_GNU_SOURCE -fvisibility=hidden -fno-omit-frame-pointer -fno-strict-aliasing -fstack-protector-strong)
target_link_options(themis_flags INTERFACE -Wl,-z,relro,-z,now)

if(THEMIS_WERROR)
  target_compile_options(themis_flags INTERFACE -Werror)
endif()

if(THEMIS_SANITIZE)
  list(JOIN THEMIS_SANITIZE "," sanitizers)
  target_compile_options(themis_flags INTERFACE -fsanitize=${sanitizers})
  target_link_options(themis_flags INTERFACE -fsanitize=${sanitizers})
  if("undefined" IN_LIST THEMIS_SANITIZE)
    target_compile_options(themis_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
  target_compile_definitions(themis_flags INTERFACE THEMIS_SANITIZED=1)
elseif(CMAKE_BUILD_TYPE MATCHES "^Rel")
  target_compile_options(themis_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()

if(THEMIS_COVERAGE)
  target_compile_options(themis_flags INTERFACE --coverage -O0)
  target_link_options(themis_flags INTERFACE --coverage)
endif()
