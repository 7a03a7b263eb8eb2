import { createHash } from 'node:crypto'
import ts from 'typescript'

type Source = { readonly path: string, readonly text: string }
/** A function, a method, or another statement of a file; `key` stays when lines move. */
type Piece = { readonly key: string, readonly range: string, readonly lines: number }

/** Stryker makes one mutant of so many lines. */
const LINES_A_MUTANT = 1.2

/**
 * Line ranges (`path:first-last`) of whole functions that have about so many mutants. Which ones
 * follows from their names, so that two runs before and after a change of tests agree.
 */
export function sampleRanges (sources: readonly Source[], mutants: number): readonly string[] {
  const pieces = sources.flatMap(piecesOf)
    .toSorted((a, b) => digest(a.key) < digest(b.key) ? -1 : 1)
  let lines = 0
  return pieces.filter(piece => {
    const isTaken = lines < mutants * LINES_A_MUTANT
    lines += piece.lines
    return isTaken
  }).map(({ range }) => range).toSorted()
}

function piecesOf ({ path, text }: Source): readonly Piece[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const nodes = file.statements.flatMap((node): readonly ts.Node[] =>
    ts.isClassDeclaration(node) ? node.members : [node])
  return nodes.filter(node => !hasNoCode(node)).map(node => {
    const first = file.getLineAndCharacterOfPosition(node.getStart()).line + 1
    const last = file.getLineAndCharacterOfPosition(node.getEnd()).line + 1
    const name = node.getText().split('\n', 1)[0] ?? ''
    return {
      key: `${path.split('/').at(-1)} ${name}`,
      range: `${path}:${first}-${last}`,
      lines: last - first + 1,
    }
  })
}

const hasNoCode = (node: ts.Node) => ts.isImportDeclaration(node) ||
  ts.isExportDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isInterfaceDeclaration(node)

const digest = (text: string) => createHash('sha256').update(text).digest('hex')
