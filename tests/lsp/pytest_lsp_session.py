#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A session with the client of lsprotocol and pytest-lsp, whose types check every answer.

    tests/lsp/pytest_lsp_session.py --tegula build/bin/tegula

Exits with 77, which ctest takes as skipped, where these packages are not installed.
"""
import argparse
import asyncio
import sys

try:
    from lsprotocol import types
    from pytest_lsp import LanguageClient, client_capabilities, make_test_lsp_client
except ImportError as missing:
    print(f"skipped: {missing} (pip install pytest-lsp)")
    sys.exit(77)

TEXT = """/// Doubles.
kernel double(x: f32[N], y: f32[N]) {
    parallel i in N by 8 { let two = x[i] * 2; y[i] = two; }
}
"""
BAD = "kernel bad(x: f32[N]) { parallel i in N { x[i] = sqrtt(1); } }\n"
URI, BAD_URI = "file:///nowhere/session.teg", "file:///nowhere/bad.teg"


async def session(command):
    client: LanguageClient = make_test_lsp_client()
    await client.start_io(command, "lsp")
    answer = await client.initialize_session(types.InitializeParams(
        capabilities=client_capabilities("visual-studio-code"), root_uri="file:///nowhere"))
    assert answer.capabilities.hover_provider and answer.capabilities.position_encoding == "utf-16"
    document = types.TextDocumentIdentifier(uri=URI)
    for uri, text, codes in ((URI, TEXT, []), (BAD_URI, BAD, ["unknown-name"])):
        client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=types.TextDocumentItem(
            uri=uri, language_id="tegula", version=1, text=text)))
        await client.wait_for_notification("textDocument/publishDiagnostics")
        assert [d.code for d in client.diagnostics[uri]] == codes
    at = types.Position(line=2, character=32)
    where = {"text_document": document, "position": at}
    whole = types.Range(start=types.Position(line=0, character=0), end=types.Position(line=9, character=0))
    hover = await client.text_document_hover_async(types.HoverParams(**where))
    assert "let two: f32<8>" in hover.contents.value
    found = await client.text_document_definition_async(types.DefinitionParams(**where))
    assert found.range.start == types.Position(line=2, character=31)
    items = await client.text_document_completion_async(types.CompletionParams(**where))
    assert any(item.label == "sqrt" for item in items.items)
    renamed = await client.text_document_rename_async(types.RenameParams(new_name="pair", **where))
    assert len(renamed.changes[URI]) == 2
    hints = await client.text_document_inlay_hint_async(types.InlayHintParams(text_document=document, range=whole))
    assert any(hint.label == ": f32<8>" for hint in hints)
    symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(text_document=document))
    assert [symbol.name for symbol in symbols] == ["double"]
    actions = await client.text_document_code_action_async(types.CodeActionParams(
        text_document=types.TextDocumentIdentifier(uri=BAD_URI), range=whole, context=types.CodeActionContext(diagnostics=[])))
    assert actions[0].edit.changes[BAD_URI][0].new_text == "sqrt"
    await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(text_document=document))
    await client.text_document_formatting_async(types.DocumentFormattingParams(
        text_document=document, options=types.FormattingOptions(tab_size=4, insert_spaces=True)))
    await client.shutdown_session()
    await client.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula", required=True)
    asyncio.run(session(parser.parse_args().tegula))
    print("all answers have the types of the protocol")
