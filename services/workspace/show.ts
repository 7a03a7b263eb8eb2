import type { Shown } from './tasks.ts'

/** Takes what a command shows. */
export type Print = (text: string) => void

/** Shows what a command found: line by line for people, as one line of JSON for scripts. */
export function show (print: Print, shown: Shown, asJson: boolean): void {
  if (asJson) return print(JSON.stringify(shown))
  for (const [name, value] of Object.entries(shown)) {
    print(`${name}: ${typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value)}`)
  }
}
