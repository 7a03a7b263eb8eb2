import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const root = join(import.meta.dirname, '..', '..')

export type Source = {
  /** Relative to the root, with forward slashes. */
  readonly path: string
  readonly text: string
  readonly lines: readonly string[]
}

/** Every page of Markdown, relative to the root. */
export const pages: readonly string[] = globSync(
  ['*.md', 'deploy/docs/**/*.md', 'schemas/api/*.md'], { cwd: root }).sort()

/** Archaic words and British spelling: use those of the documentation of Kafka, Redis and Node. */
export const ARCHAIC = new RegExp(String.raw`\b(${[
  'anew|whoever|whomever|lest|hither|mends?|mended|told|tells', "nobody's|to be had|goes by",
  'colou(r|rs|red)',
].join('|')})\b`, 'i')

let read: readonly Source[] | undefined

/**
 * Every TypeScript file of the product and its tests, generated ones left out; read once for all
 * tests of a process.
 */
export function sources (): readonly Source[] {
  read ??= globSync('{services,schemas,deploy,test}/**/*.ts', { cwd: root })
    .filter(path => path !== 'schemas/types.ts').sort().map(readSource)
  return read
}

function readSource (path: string): Source {
  const text = readFileSync(join(root, path), 'utf8')
  return { path, text, lines: text.split('\n') }
}
