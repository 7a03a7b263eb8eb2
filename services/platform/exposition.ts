/** One sample of a metric in the text format of Prometheus. */
export type Sample = {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

/** Parses the samples of some metrics from the text format of Prometheus. */
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

type FetchOptions = {
  /** Names of the metrics to return. */
  readonly names: ReadonlySet<string>
  readonly timeoutMs: number
  /** Replaced in tests. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** The samples at a URL; undefined after a timeout or an error. */
export async function fetchSamples (
  target: string, { names, timeoutMs, fetch = globalThis.fetch }: FetchOptions
): Promise<readonly Sample[] | undefined> {
  try {
    const answer = await fetch(target, { signal: AbortSignal.timeout(timeoutMs) })
    return answer.ok ? readSamples(await answer.text(), names) : undefined
  } catch {
    return undefined
  }
}
