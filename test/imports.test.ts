import { describe, expect, it } from 'vitest'
import { importSpecifiers, importsOf } from './support/parsed.ts'
import { sources, type Source } from './support/sources.ts'

/** A file imports only from folders of a lower rank or from its own folder. */
const ranks: readonly (readonly [RegExp, number])[] = [
  [/^schemas\//, 0],
  [/^services\/topology\.ts$/, 1],
  [/^services\/client\//, 1],
  [/^services\/runtime\/platform\//, 2],
  [/^services\/runtime\/crypto\//, 3],
  [/^services\/runtime\/kafka\//, 4],
  [/^services\/runtime\/engine\//, 5],
  [/^services\/(money|mail|phone|cache)\//, 6],
  [/^services\/accounts\//, 7],
  [/^services\/jobs\//, 8],
  [/^services\/webhooks\//, 9],
  [/^services\/(admin|pipeline)\//, 11],
  [/^services\//, 10],
  [/^deploy\//, 12],
  [/^test\//, 13],
]

const rankOf = (path: string) => ranks.find(([pattern]) => pattern.test(path))?.[1] ?? -1
const folderOf = (path: string) =>
  /^services\/runtime\/[^/]+|^services\/[^/]+|^[^/]+/.exec(path)?.[0] ?? ''
const all = sources()

/** The packages that a file and all that it imports need when they run. */
function packagesOf (path: string, seen = new Set<string>()): readonly string[] {
  const source = all.find(one => one.path === path)
  if (source === undefined || seen.has(path)) return []
  seen.add(path)
  const running: Source = {
    ...source, text: source.text.replaceAll(/^import type [^']*'[^']*'/gm, ''),
  }
  const packages = importSpecifiers(running).filter(name => !/^(\.|node:)/.test(name))
  return [...packages, ...importsOf(running).flatMap(next => packagesOf(next, seen))]
}

function cycleFrom (start: string, graph: ReadonlyMap<string, readonly string[]>) {
  const walk = (path: string, trail: readonly string[]): readonly string[] | undefined => {
    if (trail.includes(path)) return path === start ? [...trail, path] : undefined
    for (const next of graph.get(path) ?? []) {
      const cycle = walk(next, [...trail, path])
      if (cycle !== undefined) return cycle
    }
    return undefined
  }
  return walk(start, [])
}

describe('imports', () => {
  it('run one way through the folders', () => {
    const wrong = all.flatMap(source => importsOf(source)
      .filter(path => folderOf(path) !== folderOf(source.path))
      .filter(path => rankOf(path) >= rankOf(source.path))
      .map(path => `${source.path} imports ${path}`))
    expect(wrong).toEqual([])
  })

  it('reach only folders that exist', () => {
    const unranked = all.filter(source => rankOf(source.path) < 0).map(source => source.path)
    expect(unranked).toEqual([])
  })

  it('of the stand-in for ClickHouse need no package that its image lacks', () => {
    expect(packagesOf('test/containers/stand-ins/clickhouse.ts')).toEqual(['chdb'])
  })

  it('form no cycle', () => {
    const graph = new Map(all.filter(source => !source.path.startsWith('test/'))
      .map(source => [source.path, importsOf(source)]))
    const byFolder = new Map<string, Set<string>>()
    for (const [path, targets] of graph) {
      const folder = byFolder.get(folderOf(path)) ?? new Set<string>()
      targets.map(folderOf).filter(target => target !== folderOf(path))
        .forEach(it => folder.add(it))
      byFolder.set(folderOf(path), folder)
    }
    const folders = new Map([...byFolder].map(([folder, targets]) => [folder, [...targets]]))
    const cycles = [...folders.keys()].map(folder => cycleFrom(folder, folders))
    expect(cycles.filter(cycle => cycle !== undefined)).toEqual([])
    const files = new Map([...graph].map(([path, targets]) =>
      [path, targets.filter(target => folderOf(target) === folderOf(path))]))
    const loops = [...files.keys()].map(path => cycleFrom(path, files))
    expect(loops.filter(loop => loop !== undefined)).toEqual([])
  })
})
