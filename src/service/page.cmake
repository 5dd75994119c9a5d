# The built web pages as data in the program: building needs no Node. scripts/web makes them.
set(page_folder ${PROJECT_SOURCE_DIR}/web/dist)
set(page_names index.html app.js app.css panel.html)
foreach(name ${page_names})
  if(NOT EXISTS ${page_folder}/${name})
    message(FATAL_ERROR "web/dist/${name} is missing: scripts/web builds it, and it is committed")
  endif()
endforeach()
list(TRANSFORM page_names PREPEND ${page_folder}/ OUTPUT_VARIABLE page_sources)
add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/pages.cc
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${page_folder} "-DFILES=${page_names}"
          -DOUTPUT=${CMAKE_CURRENT_BINARY_DIR}/pages.cc
          -P ${CMAKE_CURRENT_SOURCE_DIR}/embed_pages.cmake
  DEPENDS ${page_sources} embed_pages.cmake
  VERBATIM)
