# SPDX-License-Identifier: Apache-2.0
# About a hundred programs are linked, each with all its layers; mold takes a fifth of the time of
# GNU ld for that. Without it the compiler's own linker does the same.
find_program(THEMIS_MOLD mold)
mark_as_advanced(THEMIS_MOLD)
if(THEMIS_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# themis_program(target): what users run is linked by GNU ld. mold 1.10 of Debian 12 can place the part
# that becomes read-only across an unmapped page, and then the program does not start ("cannot apply
# additional memory protection after relocation").
function(themis_program target)
  if(THEMIS_MOLD)
    target_link_options(${target} PRIVATE -fuse-ld=bfd)
  endif()
endfunction()
