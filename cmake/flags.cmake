# SPDX-License-Identifier: LGPL-2.1-or-later
#
# fl_warn    warnings and optimisation, for every C target of the project
# fl_san     the sanitizer, for every target that runs under it
# fl_flags   both, and the include path and definitions of the runtime
# fl_harden  what the shipped libraries and the launcher are linked with
include(CheckIncludeFile)

set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_DEBUG "-Og -g")

add_library(fl_warn INTERFACE)
target_compile_options(fl_warn INTERFACE
  -Wall -Wextra -Wundef -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -fno-strict-aliasing -fno-omit-frame-pointer)
if(FL_WERROR)
  target_compile_options(fl_warn INTERFACE -Werror)
endif()

add_library(fl_san INTERFACE)
if(FL_SANITIZE)
  target_compile_options(fl_san INTERFACE -fsanitize=${FL_SANITIZE}
    -fno-sanitize-recover=all)
  target_link_options(fl_san INTERFACE -fsanitize=${FL_SANITIZE})
  target_compile_definitions(fl_san INTERFACE FL_SANITIZED=1)
  # The preload needs the sanitizer's shared library in front of it. gcc links
  # that one anyway; clang has to be told, and where to find it at run time.
  if(FL_SANITIZE MATCHES address)
    if(CMAKE_C_COMPILER_ID MATCHES Clang)
      set(lib libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
    else()
      set(lib libasan.so)
    endif()
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${lib}
      OUTPUT_VARIABLE FL_SANITIZER_LIB OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(CMAKE_C_COMPILER_ID MATCHES Clang)
      get_filename_component(dir ${FL_SANITIZER_LIB} DIRECTORY)
      target_link_options(fl_san INTERFACE -shared-libsan -Wl,-rpath,${dir})
    endif()
  endif()
endif()

check_include_file(sys/rseq.h FL_HAVE_SYS_RSEQ_H)

add_library(fl_flags INTERFACE)
target_link_libraries(fl_flags INTERFACE fl_warn fl_san)
target_include_directories(fl_flags INTERFACE
  ${FL_ARCH_DIRS}
  ${PROJECT_SOURCE_DIR}/runtime
  ${PROJECT_SOURCE_DIR}/runtime/include)
target_compile_definitions(fl_flags INTERFACE
  _GNU_SOURCE FL_DEBUG=${FL_DEBUG}
  FL_DATADIR="${CMAKE_INSTALL_FULL_DATADIR}/faultline"
  FL_VERSION_STRING="${PROJECT_VERSION}"
  $<$<BOOL:${FL_HAVE_SYS_RSEQ_H}>:FL_HAVE_RSEQ>)

add_library(fl_harden INTERFACE)
target_compile_options(fl_harden INTERFACE -fstack-protector-strong)
if(FL_ISA MATCHES "^(x86_64|i386)$")
  target_compile_options(fl_harden INTERFACE -fcf-protection=full)
elseif(FL_ISA STREQUAL aarch64)
  target_compile_options(fl_harden INTERFACE -mbranch-protection=standard)
endif()
target_link_options(fl_harden INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
# Sanitized objects take their runtime from the executable.
if(NOT FL_SANITIZE)
  target_link_options(fl_harden INTERFACE -Wl,-z,defs)
endif()
