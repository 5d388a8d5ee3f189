# cmake -P: runs npm in the build folder and makes one script of what it installed. A failure, such as no
# network, leaves an empty script: the program then builds without charts, and says so when asked for some.
foreach(name package.json package-lock.json .npmrc)
  configure_file(${WEB}/${name} ${BUILD}/${name} COPYONLY)
endforeach()
set(omit)
if(NOT TESTS)
  set(omit --omit=dev)
endif()
# vega-lite asks for a newer node than Debian's, for its command line only: a warning, not an error.
execute_process(COMMAND ${NPM} ci ${omit} --prefer-offline --no-progress --loglevel=error
                --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-timeout=60000
                WORKING_DIRECTORY ${BUILD} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT failed)
  execute_process(COMMAND ${NODE} ${WEB}/bundle.mjs libraries ${BUILD}/node_modules ${OUTPUT}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
endif()
if(failed)
  message(WARNING "dp report will not work: npm could not install its chart libraries. To try again, remove "
                  "${OUTPUT} and build.\n${output}")
  file(WRITE ${OUTPUT} "")
endif()
