import { dirname, join, relative } from 'node:path'
import ts from 'typescript'
import { root, type Source } from './sources.ts'

const specifiers = new Map<Source, readonly string[]>()

/** Paths, relative to the root, of the project's own files that a file imports. */
export function importsOf (source: Source): readonly string[] {
  return importSpecifiers(source)
    .filter(specifier => specifier.startsWith('.'))
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

function nameOf (node: ts.SignatureDeclaration): string {
  if (node.name !== undefined) return node.name.getText()
  return ts.isVariableDeclaration(node.parent) ? node.parent.name.getText() : '(anonymous)'
}

function linesOf (tree: ts.SourceFile, node: ts.Node): number {
  const first = tree.getLineAndCharacterOfPosition(node.getStart()).line
  return tree.getLineAndCharacterOfPosition(node.end).line - first + 1
}
