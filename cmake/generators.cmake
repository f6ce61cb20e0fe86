# SPDX-License-Identifier: Apache-2.0
# lex.re -> gen/query/lex.c (re2c), parse.y -> gen/query/parse.c and parse.h (Lemon).
# A warning of re2c and a conflict in the grammar fail the build.
find_program(RE2C re2c REQUIRED)
find_program(LEMON lemon REQUIRED)

function(themis_generate_parser target)
  set(src ${CMAKE_SOURCE_DIR}/src/query)
  set(gen ${CMAKE_BINARY_DIR}/gen/query)
  file(MAKE_DIRECTORY ${gen})
  if(EXISTS ${src}/lex.re)
    add_custom_command(
      OUTPUT ${gen}/lex.c
      COMMAND ${RE2C} -W -Werror --no-debug-info -o ${gen}/lex.c ${src}/lex.re
      DEPENDS ${src}/lex.re)
    add_custom_command(
      OUTPUT ${gen}/parse.c ${gen}/parse.h
      COMMAND ${LEMON} -q -d${gen} ${src}/parse.y
      DEPENDS ${src}/parse.y)
    target_sources(${target} PRIVATE ${gen}/lex.c ${gen}/parse.c ${gen}/parse.h)
    set_source_files_properties(${gen}/lex.c ${gen}/parse.c PROPERTIES COMPILE_OPTIONS
                                "-Wno-unused-parameter;-Wno-missing-prototypes;-Wno-unused-variable;-Wno-undef")
  endif()
endfunction()

# A file compiled in: const char NAME[] and const size_t NAME_len.
function(themis_embed target file name)
  set(gen ${CMAKE_BINARY_DIR}/gen/${name}.c)
  add_custom_command(
    OUTPUT ${gen}
    COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${gen} -DNAME=${name} -P
            ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  target_sources(${target} PRIVATE ${gen})
endfunction()
