# Writes the commit that is built into OUT (an include file), touching it only when it changed. Without git, or in a source
# archive, the text is empty.   cmake -DSOURCE=<folder> -DOUT=<file> -P GitVersion.cmake
set(commit "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "")
  endif()
endif()
set(text "\"${commit}\"\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} ${text})
endif()
