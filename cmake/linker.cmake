# SPDX-License-Identifier: Apache-2.0
# About a hundred programs are linked, each with all its layers; mold takes a fifth of the time of
# GNU ld for that. Without it the compiler's own linker does the same.
find_program(THEMIS_MOLD mold)
mark_as_advanced(THEMIS_MOLD)
if(THEMIS_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
