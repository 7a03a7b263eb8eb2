/** One value of a metric, as services tell it to Prometheus. */
export type Sample = {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

/** Reads the text format of Prometheus; lines of other kinds are passed over. */
export function readSamples (
  text: string, names: ReadonlySet<string>
): readonly Sample[] {
  return text.split('\n').flatMap(line => {
    const [, name = '', labels = '', value = ''] = LINE.exec(line) ?? []
    if (!names.has(name)) return []
    return [{ name, labels: labelsOf(labels), value: Number(value) }]
  })
}

function labelsOf (text: string): Readonly<Record<string, string>> {
  return Object.fromEntries([...text.matchAll(LABEL)].map(([, name = '', value = '']) =>
    [name, value.replace(/\\(.)/g, (_all, sign: string) => sign === 'n' ? '\n' : sign)]))
}

type Asking = {
  /** Metrics that are wanted. */
  readonly names: ReadonlySet<string>
  readonly withinMs: number
  /** Replaced by tests. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** What a process tells of its metrics; undefined when it does not answer in time, or not well. */
export async function samplesAt (
  target: string, { names, withinMs, fetch = globalThis.fetch }: Asking
): Promise<readonly Sample[] | undefined> {
  try {
    const answer = await fetch(target, { signal: AbortSignal.timeout(withinMs) })
    return answer.ok ? readSamples(await answer.text(), names) : undefined
  } catch {
    return undefined
  }
}
