# The manual page and the completions of shells, which the program itself prints. They are installed
# where man, bash, zsh and fish look.
if(NOT TARGET tegula OR CMAKE_CROSSCOMPILING)
    return()
endif()
set(TEGULA_PAGES ${CMAKE_BINARY_DIR}/gen/pages)
file(MAKE_DIRECTORY ${TEGULA_PAGES})
set(files)
function(tegula_page name folder) # words of the command...
    add_custom_command(OUTPUT ${TEGULA_PAGES}/${name}
                       COMMAND tegula ${ARGN} > ${TEGULA_PAGES}/${name}
                       DEPENDS tegula VERBATIM COMMENT "Writing ${name}")
    install(FILES ${TEGULA_PAGES}/${name} DESTINATION ${folder} COMPONENT tools)
    set(files ${files} ${TEGULA_PAGES}/${name} PARENT_SCOPE)
endfunction()
tegula_page(tegula.1 ${CMAKE_INSTALL_MANDIR}/man1 help man)
tegula_page(tegula ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
tegula_page(_tegula ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
tegula_page(tegula.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
add_custom_target(tegula_pages ALL DEPENDS ${files})
