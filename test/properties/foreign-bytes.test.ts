import { Session } from 'node:inspector/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { lowestCost } from '../support/lowest-cost.ts'
import type { ForeignParser } from './foreign-parsers.ts'

/**
 * Counts what the engine executes: the calls of every function and the runs of every block in it,
 * which are the same on every machine. Started before the parsers are loaded, so that their blocks
 * are counted.
 */
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
const { FOREIGN_PARSERS } = await import('./foreign-parsers.ts')
const { slowParsers } = await import('./slow-parsers.ts')
afterAll(() => session.disconnect())

type Parse = ForeignParser['parse']

async function parsed (parse: Parse, bytes: Buffer): Promise<unknown> {
  try {
    return await parse(bytes)
  } catch {
    return undefined
  }
}

/** The steps of a parse, and the characters of the texts in its result. */
async function measure (parse: Parse, text: string) {
  const bytes = Buffer.from(text)
  await session.post('Profiler.takePreciseCoverage')
  const value = await parsed(parse, bytes)
  const { result } = await session.post('Profiler.takePreciseCoverage')
  let steps = 0
  for (const { url, functions } of result) {
    if (url === import.meta.filename || url === import.meta.url) continue
    for (const { ranges } of functions) for (const { count } of ranges) steps += count
  }
  return { bytes: bytes.length, steps, characters: charactersIn(value) }
}

function charactersIn (value: unknown): number {
  if (typeof value === 'string') return value.length
  if (Buffer.isBuffer(value)) return value.length
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce<number>((sum, item) => sum + charactersIn(item), 0)
}

/**
 * CPU time of this thread, in microseconds: native code, such as a regular expression, too. The
 * lowest of three runs, or of fewer if it is low enough.
 */
async function cpuOf (parse: Parse, text: string, enough = 0): Promise<number> {
  const bytes = Buffer.from(text)
  return await lowestCost(async () => {
    const before = process.threadCpuUsage()
    await parsed(parse, bytes)
    const { user, system } = process.threadCpuUsage(before)
    return user + system
  }, enough, 3)
}

const SMALL_BYTES = 4_096
const FACTOR = 8
/** Of a parser with a loop for each byte and a few for each cell or part. */
const MAX_STEPS_PER_BYTE = 60
/** Whatever the size: loading code, wide headers, the first pieces. */
const FREE_STEPS = 60_000
const MAX_GROWTH = 8
const FREE_CHARACTERS = 40_000
/** Far beyond noise, far below the square of the factor. */
const CPU_FACTOR = 16
const CPU_TOLERANCE = 5
const CPU_FLOOR_MICROS = 2_000
const CPU_SMALL_BYTES = 2_048

type Measured = Pick<ForeignParser, 'parse' | 'growth' | 'stepsPerByte'>

/** What is wrong with the cost of a parse. */
async function faultsOf (
  { parse, growth = MAX_GROWTH, stepsPerByte = MAX_STEPS_PER_BYTE }: Measured,
  shape: (size: number) => string
): Promise<readonly string[]> {
  await parsed(parse, Buffer.from(shape(SMALL_BYTES)))
  const small = await measure(parse, shape(SMALL_BYTES))
  const large = await measure(parse, shape(FACTOR * SMALL_BYTES))
  const faults: string[] = []
  if (large.steps > FREE_STEPS + 1.5 * FACTOR * small.steps) {
    faults.push(`${FACTOR} times the bytes take ${large.steps} instead of ${small.steps} steps`)
  }
  const worked = large.bytes + large.characters
  if (large.steps > FREE_STEPS + stepsPerByte * worked) {
    faults.push(`${large.bytes} bytes take ${large.steps} steps`)
  }
  if (large.characters > FREE_CHARACTERS + growth * large.bytes) {
    faults.push(`${large.bytes} bytes become ${large.characters} characters`)
  }
  if (faults.length > 0) return faults
  const base = Math.max(await cpuOf(parse, shape(CPU_SMALL_BYTES)), CPU_FLOOR_MICROS)
  const most = CPU_TOLERANCE * CPU_FACTOR * base
  const micros = await cpuOf(parse, shape(CPU_FACTOR * CPU_SMALL_BYTES), most)
  if (micros > most) {
    faults.push(`${CPU_FACTOR} times the bytes take ${micros} instead of ${base} us of CPU`)
  }
  return faults
}

describe.each(FOREIGN_PARSERS)('$name', parser => {
  it.each(Object.entries(parser.shapes))('costs what its bytes cost: %s', async (_name, shape) => {
    expect(await faultsOf(parser, shape)).toEqual([])
  })
})

describe('the measure', () => {
  const bytes = (size: number) => 'a'.repeat(size)

  it.each(Object.entries(slowParsers))('finds what is %s', async (_name, parse) => {
    expect((await faultsOf({ parse }, bytes)).length).toBeGreaterThan(0)
  })
})
