// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts `tegula lsp` for Tegula files. It needs no build step; `npm install` in this folder fetches
// the one module that it uses.
const vscode = require("vscode");
const {LanguageClient} = require("vscode-languageclient/node");

let client;

function activate() {
    const settings = vscode.workspace.getConfiguration("tegula");
    const server = {command: settings.get("command"), args: ["lsp"]};
    client = new LanguageClient("tegula", "Tegula", server, {
        documentSelector: [{language: "tegula"}],
        initializationOptions: {paths: settings.get("paths")},
        synchronize: {fileEvents: vscode.workspace.createFileSystemWatcher("**/*.teg")},
    });
    return client.start();
}

function deactivate() {
    return client ? client.stop() : undefined;
}

module.exports = {activate, deactivate};
