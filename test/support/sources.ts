import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import ts from 'typescript'

export const root = join(import.meta.dirname, '..', '..')

export type Source = {
  /** Relative to the root, with forward slashes. */
  readonly path: string
  readonly text: string
  readonly lines: readonly string[]
  readonly tree: ts.SourceFile
}

/** Every TypeScript file of the product and its tests, generated ones left out. */
export function sources (): readonly Source[] {
  const paths = globSync('{services,schemas,deploy,test}/**/*.ts', { cwd: root })
  return paths.filter(path => path !== 'schemas/types.ts').sort().map(readSource)
}

function readSource (path: string): Source {
  const text = readFileSync(join(root, path), 'utf8')
  const tree = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  return { path, text, lines: text.split('\n'), tree }
}

/** Paths, relative to the root, of the project's own files that a file imports. */
export function importsOf (source: Source): readonly string[] {
  return importSpecifiers(source)
    .filter(specifier => specifier.startsWith('.'))
    .map(specifier => relative(root, join(root, dirname(source.path), specifier)))
}

/** What a file imports, statically or by `import()`, as it is written. */
export function importSpecifiers (source: Source): readonly string[] {
  return ts.preProcessFile(source.text, true, true).importedFiles.map(file => file.fileName)
}

/** Every function of a file with the number of lines it takes, comments above it left out. */
export function functionsOf (source: Source): readonly { name: string, lines: number }[] {
  const found: { name: string, lines: number }[] = []
  const visit = (node: ts.Node) => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
      found.push({ name: nameOf(node), lines: linesOf(source.tree, node) })
    }
    ts.forEachChild(node, visit)
  }
  visit(source.tree)
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
