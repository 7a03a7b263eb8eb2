import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** A static file for browsers. Its path contains a content hash. */
type Asset = { readonly path: string, readonly type: string, readonly content: Buffer }

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}

const OWN_FILES = [
  'page.css', 'theme.js', 'copy.js', 'live.js', 'columns.js', 'upload.js', 'pipeline.js',
  'sign-in.js', 'icon.svg',
] as const
const CSV_PARSER = 'csv-parse.js'

export type AssetName = typeof OWN_FILES[number] | typeof CSV_PARSER

/** All static files, read once. Modules import each other by relative names. */
export const assets: ReadonlyMap<AssetName, Asset> = readAll()

/** The path of a static file. */
export function assetPath (name: AssetName): string {
  return assets.get(name)?.path ?? ''
}

function readAll (): ReadonlyMap<AssetName, Asset> {
  const parser = fileURLToPath(import.meta.resolve('csv-parse/browser/esm/sync'))
  const contents = new Map<AssetName, Buffer>([
    ...OWN_FILES.map(name =>
      [name, readFileSync(`${import.meta.dirname}/static/${name}`)] as const),
    [CSV_PARSER, readFileSync(parser)],
  ])
  // One hash for all files, because modules import each other from the same folder.
  const version = createHash('sha256')
  for (const content of contents.values()) version.update(content)
  const folder = `/static/${version.digest('hex').slice(0, 16)}`
  return new Map([...contents].map(([name, content]) => {
    const type = TYPES[name.split('.').pop() ?? ''] ?? 'application/octet-stream'
    return [name, { path: `${folder}/${name}`, type, content }]
  }))
}
