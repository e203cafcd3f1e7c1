# SPDX-License-Identifier: LGPL-2.1-or-later
#
# FL_ISA: the folder of arch/ that comes first on the include path. A target
# without a folder of its own is served by arch/generic alone.
string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" fl_cpu)
if(fl_cpu MATCHES "^(x86_64|amd64|i[3-6]86)$")
  if(CMAKE_SIZEOF_VOID_P EQUAL 4)
    set(fl_isa_guess i386)
  else()
    set(fl_isa_guess x86_64)
  endif()
elseif(fl_cpu MATCHES "^(aarch64|arm64)$")
  set(fl_isa_guess aarch64)
elseif(fl_cpu MATCHES "^(ppc64|ppc64le|powerpc64|powerpc64le)$")
  set(fl_isa_guess ppc64)
else()
  set(fl_isa_guess ${fl_cpu})
endif()
set(FL_ISA "${fl_isa_guess}" CACHE STRING "folder of arch/ to build for")

set(FL_ARCH_DIRS "")
if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/arch/${FL_ISA}")
  list(APPEND FL_ARCH_DIRS "${PROJECT_SOURCE_DIR}/arch/${FL_ISA}")
endif()
list(APPEND FL_ARCH_DIRS "${PROJECT_SOURCE_DIR}/arch/generic")
