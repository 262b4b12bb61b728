" SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
if exists("b:did_ftplugin")
    finish
endif
let b:did_ftplugin = 1

setlocal commentstring=//\ %s comments=s1:/*,mb:*,ex:*/,:///,://
setlocal expandtab shiftwidth=4 softtabstop=4 textwidth=100
setlocal formatprg=tegula\ fmt\ -
setlocal errorformat=%f:%l:%c:\ %trror:\ %m,%f:%l:%c:\ %tarning:\ %m,%-G%.%#
setlocal makeprg=tegula\ check\ %:S
let b:undo_ftplugin = "setl cms< com< et< sw< sts< tw< fp< efm< mp<"
