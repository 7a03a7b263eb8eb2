import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** A file that browsers are given, and its address, which changes with its content. */
export type Asset = { readonly path: string, readonly type: string, readonly content: Buffer }

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}

const OWN = [
  'page.css', 'theme.js', 'copy.js', 'live.js', 'columns.js', 'upload.js', 'pipeline.js',
  'sign-in.js', 'icon.svg',
] as const
const PARSER = 'csv-parse.js'

export type AssetName = typeof OWN[number] | typeof PARSER

/** All files of the page, read once. Modules import each other by names beside their own. */
export const assets: ReadonlyMap<AssetName, Asset> = readAll()

/** The address of a file. */
export function assetPath (name: AssetName): string {
  return assets.get(name)?.path ?? ''
}

function readAll (): ReadonlyMap<AssetName, Asset> {
  const parser = fileURLToPath(import.meta.resolve('csv-parse/browser/esm/sync'))
  const contents = new Map<AssetName, Buffer>([
    ...OWN.map(name => [name, readFileSync(`${import.meta.dirname}/static/${name}`)] as const),
    [PARSER, readFileSync(parser)],
  ])
  // One version for all: a module finds the others of the same version beside it.
  const version = createHash('sha256')
  for (const content of contents.values()) version.update(content)
  const folder = `/static/${version.digest('hex').slice(0, 16)}`
  return new Map([...contents].map(([name, content]) => {
    const type = TYPES[name.split('.').pop() ?? ''] ?? 'application/octet-stream'
    return [name, { path: `${folder}/${name}`, type, content }]
  }))
}
