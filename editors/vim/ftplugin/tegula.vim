" SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
if exists("b:did_ftplugin")
    finish
endif
let b:did_ftplugin = 1

setlocal commentstring=//\ %s comments=s1:/*,mb:*,ex:*/,:///,://
setlocal expandtab shiftwidth=4 softtabstop=4 textwidth=100
setlocal errorformat=%f:%l:%c:\ %trror:\ %m,%f:%l:%c:\ %tarning:\ %m,%-G%.%#
setlocal makeprg=tegula\ check\ %:S

" The formatter reads whole files: a part of one is no program. A faulty file stays as it is.
if !exists("*s:Format")
    function s:Format()
        let l:lines = systemlist("tegula fmt -", getline(1, "$"))
        if v:shell_error
            echohl ErrorMsg | echo join(l:lines, "\n") | echohl None
            return
        endif
        let l:view = winsaveview()
        call setline(1, l:lines)
        silent! execute (len(l:lines) + 1) . ",$delete _"
        call winrestview(l:view)
    endfunction
endif
command! -buffer TegulaFmt call s:Format()
let b:undo_ftplugin = "setl cms< com< et< sw< sts< tw< efm< mp< | delcommand TegulaFmt"
