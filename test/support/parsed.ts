import { dirname, join, relative } from 'node:path'
import ts from 'typescript'
import { root, type Source } from './sources.ts'

const specifiers = new Map<Source, readonly string[]>()

/** Paths, relative to the root, of the project's own files that a file imports. */
export function importsOf (source: Source): readonly string[] {
  return importSpecifiers(source).filter(specifier => specifier.startsWith('.'))
    .map(specifier => relative(root, join(root, dirname(source.path), specifier)))
}

/** What a file imports, statically or by `import()`, as it is written. */
export function importSpecifiers (source: Source): readonly string[] {
  const known = specifiers.get(source) ??
    ts.preProcessFile(source.text, true, false).importedFiles.map(file => file.fileName)
  specifiers.set(source, known)
  return known
}

/**
 * Every function of more than `limit` lines with its number of lines, comments above it left
 * out.
 */
export function longFunctionsOf (
  source: Source, most: number
): readonly { name: string, lines: number }[] {
  // Most files need not be parsed for that, which is what takes long.
  if (source.lines.length <= most) return []
  const tree = ts.createSourceFile(source.path, source.text, ts.ScriptTarget.Latest, true)
  const found: { name: string, lines: number }[] = []
  const visit = (node: ts.Node) => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
      const lines = linesOf(tree, node)
      if (lines > most) found.push({ name: nameOf(node), lines })
    }
    ts.forEachChild(node, visit)
  }
  visit(tree)
  return found
}

/**
 * The functions that a file declares and does not export, with their lines, and how often the file
 * uses their name.
 */
export function readPrivateFunctions (
  source: Source
): readonly { readonly name: string, readonly lines: number, readonly uses: number }[] {
  const tree = ts.createSourceFile(source.path, source.text, ts.ScriptTarget.Latest, true)
  const occurrences = new Map<string, number>()
  const visit = (node: ts.Node) => {
    if (ts.isIdentifier(node)) occurrences.set(node.text, (occurrences.get(node.text) ?? 0) + 1)
    ts.forEachChild(node, visit)
  }
  visit(tree)
  return tree.statements.filter(ts.isFunctionDeclaration)
    .filter(({ modifiers }) => !modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword))
    .map(node => {
      const name = nameOf(node)
      // Its declaration is one occurrence.
      return { name, lines: linesOf(tree, node), uses: (occurrences.get(name) ?? 0) - 1 }
    })
}

function nameOf (node: ts.SignatureDeclaration): string {
  if (node.name !== undefined) return node.name.getText()
  return ts.isVariableDeclaration(node.parent) ? node.parent.name.getText() : '(anonymous)'
}

function linesOf (tree: ts.SourceFile, node: ts.Node): number {
  const first = tree.getLineAndCharacterOfPosition(node.getStart()).line
  return tree.getLineAndCharacterOfPosition(node.end).line - first + 1
}
