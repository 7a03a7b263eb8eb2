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

/** The steps since it was asked last. Each asking walks the whole heap. */
async function takeSteps (): Promise<number> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  let steps = 0
  for (const { url, functions } of result) {
    if (url === import.meta.filename || url === import.meta.url) continue
    for (const { ranges } of functions) for (const { count } of ranges) steps += count
  }
  return steps
}

function charactersIn (value: unknown): number {
  if (typeof value === 'string') return value.length
  if (Buffer.isBuffer(value)) return value.length
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce<number>((sum, item) => sum + charactersIn(item), 0)
}

/**
 * CPU time of this thread for a parse, in microseconds, and its result: native code, such as a
 * regular expression, costs no steps.
 */
async function timed (parse: Parse, bytes: Buffer) {
  const before = process.threadCpuUsage()
  const value = await parsed(parse, bytes)
  const { user, system } = process.threadCpuUsage(before)
  return { value, micros: user + system }
}

/** The lowest of three runs, or of fewer if it is low enough. */
const lowestMicros = (parse: Parse, bytes: Buffer, enough: number): Promise<number> =>
  lowestCost(async () => (await timed(parse, bytes)).micros, enough, 3)

const SMALL_BYTES = 4_096
const FACTOR = 8
/** Of a parser with a loop for each byte and a few for each cell or part. */
const MAX_STEPS_PER_BYTE = 60
/** Whatever the size: loading code, wide headers, the first pieces. */
const FREE_STEPS = 60_000
const MAX_GROWTH = 8
const FREE_CHARACTERS = 40_000
/** Far beyond noise, far below the square of the factor. */
const CPU_TOLERANCE = 5
const CPU_FLOOR_MICROS = 2_000
const CPU_SMALL_BYTES = 2_048
const CPU_FACTOR = FACTOR * SMALL_BYTES / CPU_SMALL_BYTES

type Measured = Pick<ForeignParser, 'parse' | 'growth' | 'stepsPerByte'>

/** What is wrong with the cost of a parse. */
async function faultsOf (
  { parse, growth = MAX_GROWTH, stepsPerByte = MAX_STEPS_PER_BYTE }: Measured,
  shape: (size: number) => string
): Promise<readonly string[]> {
  const [tiny, small, large] = [CPU_SMALL_BYTES, SMALL_BYTES, FACTOR * SMALL_BYTES]
    .map(size => Buffer.from(shape(size))) as [Buffer, Buffer, Buffer]
  await parsed(parse, small)
  const baseMicros = await lowestMicros(parse, tiny, CPU_FLOOR_MICROS)
  await takeSteps()
  await parsed(parse, small)
  const smallSteps = await takeSteps()
  const { value, micros } = await timed(parse, large)
  const steps = await takeSteps()
  const characters = charactersIn(value)
  const faults: string[] = []
  if (steps > FREE_STEPS + 1.5 * FACTOR * smallSteps) {
    faults.push(`${FACTOR} times the bytes take ${steps} instead of ${smallSteps} steps`)
  }
  if (steps > FREE_STEPS + stepsPerByte * (large.length + characters)) {
    faults.push(`${large.length} bytes take ${steps} steps`)
  }
  if (characters > FREE_CHARACTERS + growth * large.length) {
    faults.push(`${large.length} bytes become ${characters} characters`)
  }
  if (faults.length > 0) return faults
  const mostMicros = CPU_TOLERANCE * CPU_FACTOR * Math.max(baseMicros, CPU_FLOOR_MICROS)
  const lowest = micros <= mostMicros ? micros : await lowestMicros(parse, large, mostMicros)
  if (lowest > mostMicros) {
    faults.push(`${CPU_FACTOR} times the bytes take ${lowest} instead of ${baseMicros} us of CPU`)
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
