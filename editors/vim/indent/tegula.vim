" SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
" Indentation by braces, four columns a level, as `tegula fmt` has it.
if exists("b:did_indent")
    finish
endif
let b:did_indent = 1

setlocal nosmartindent indentexpr=GetTegulaIndent(v:lnum) indentkeys=0{,0},0),0],!^F,o,O,e
let b:undo_indent = "setl si< inde< indk<"

if exists("*GetTegulaIndent")
    finish
endif

function GetTegulaIndent(lnum)
    let last = prevnonblank(a:lnum - 1)
    if last == 0
        return 0
    endif
    let text = substitute(getline(last), '//.*$\|"[^"]*"', '', 'g')
    let opened = len(substitute(text, '[^{]', '', 'g')) - len(substitute(text, '[^}]', '', 'g'))
    if text =~# '^\s*}'
        let opened += 1
    endif
    let indent = indent(last) + (opened > 0 ? shiftwidth() : opened < 0 ? opened * shiftwidth() : 0)
    return getline(a:lnum) =~# '^\s*}' ? indent - shiftwidth() : indent
endfunction
