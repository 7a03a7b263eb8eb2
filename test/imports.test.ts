import { describe, expect, it } from 'vitest'
import { importsOf } from './support/parsed.ts'
import { sources } from './support/sources.ts'

/** A file imports only from rooms of a lower rank or from its own room. */
const ranks: readonly (readonly [RegExp, number])[] = [
  [/^schemas\//, 0],
  [/^services\/topology\.ts$/, 1],
  [/^services\/lib\//, 2],
  [/^services\/(money|accounts)\//, 3],
  [/^services\/jobs\//, 4],
  [/^services\/records\//, 5],
  [/^services\/client\//, 1],
  [/^services\//, 6],
  [/^deploy\//, 7],
  [/^test\//, 8],
]

const rankOf = (path: string) => ranks.find(([pattern]) => pattern.test(path))?.[1] ?? -1
/** A folder of the services is a room; the other folders at the top are one each. */
const roomOf = (path: string) =>
  path.split('/').slice(0, path.startsWith('services/') ? 2 : 1).join('/')
const all = sources()

function circleFrom (start: string, graph: ReadonlyMap<string, readonly string[]>) {
  const walk = (path: string, trail: readonly string[]): readonly string[] | undefined => {
    if (trail.includes(path)) return path === start ? [...trail, path] : undefined
    for (const next of graph.get(path) ?? []) {
      const circle = walk(next, [...trail, path])
      if (circle !== undefined) return circle
    }
    return undefined
  }
  return walk(start, [])
}

describe('imports', () => {
  it('run one way through the rooms', () => {
    const wrong = all.flatMap(source => importsOf(source)
      .filter(path => roomOf(path) !== roomOf(source.path))
      .filter(path => rankOf(path) >= rankOf(source.path))
      .map(path => `${source.path} imports ${path}`))
    expect(wrong).toEqual([])
  })

  it('reach only rooms that exist', () => {
    const lost = all.filter(source => rankOf(source.path) < 0).map(source => source.path)
    expect(lost).toEqual([])
  })

  it('form no circle', () => {
    const graph = new Map(all.filter(source => !source.path.startsWith('test/'))
      .map(source => [source.path, importsOf(source)]))
    const byRoom = new Map<string, Set<string>>()
    for (const [path, targets] of graph) {
      const room = byRoom.get(roomOf(path)) ?? new Set<string>()
      targets.map(roomOf).filter(target => target !== roomOf(path)).forEach(it => room.add(it))
      byRoom.set(roomOf(path), room)
    }
    const rooms = new Map([...byRoom].map(([room, targets]) => [room, [...targets]]))
    const circles = [...rooms.keys()].map(room => circleFrom(room, rooms))
    expect(circles.filter(circle => circle !== undefined)).toEqual([])
    const files = new Map([...graph].map(([path, targets]) =>
      [path, targets.filter(target => roomOf(target) === roomOf(path))]))
    const loops = [...files.keys()].map(path => circleFrom(path, files))
    expect(loops.filter(loop => loop !== undefined)).toEqual([])
  })
})
