import { Command, InvalidArgumentError } from 'commander'
import { randomInt } from 'node:crypto'
import { CATALOGUE } from './catalogue.ts'
import type { Fault, Outcome } from './fault.ts'
import { createRunner } from './run.ts'
import { faultTable } from './table.ts'

const whole = (text: string): number => {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw new InvalidArgumentError('It must be a whole number from 0.')
}

const { list, only, seed, quick } = new Command('faults')
  .description('Runs the services on a stack of their own, breaks it in every way there is a ' +
    'scenario for, and checks after each that nothing was lost, doubled or charged wrongly. ' +
    'Exits with 1 when an invariant was violated; the command that repeats a failure is printed.')
  .option('--list', 'show the scenarios and end')
  .option('--only <names>', 'only these scenarios, joined by commas')
  .option('--seed <number>', 'the seed of load and faults; a random one by default', whole)
  .option('--quick', 'what npm test -- --ci runs too, with less of everything')
  .parse()
  .opts<{ list?: boolean, only?: string, seed?: number, quick?: boolean }>()

function chosen (): readonly Fault[] {
  const names = only?.split(',').map(name => name.trim())
  const unknown = names?.filter(name => !CATALOGUE.some(fault => fault.name === name)) ?? []
  if (unknown.length > 0) {
    console.error(`faults: there is no ${unknown.join(', ')}; --list shows what there is`)
    process.exit(2)
  }
  return CATALOGUE.filter(fault =>
    names?.includes(fault.name) ?? (quick !== true || fault.quick === true))
}

function showList (): void {
  for (const fault of CATALOGUE) {
    console.log(`${fault.name.padEnd(24)} ${fault.kind.padEnd(8)} ${fault.about}` +
      (fault.quick ? ' (quick)' : ''))
  }
}

async function runAll (faults: readonly Fault[]): Promise<readonly Outcome[]> {
  const runner = createRunner()
  const outcomes: Outcome[] = []
  const first = seed ?? randomInt(1_000_000)
  const stop = async () => {
    await runner.close()
    process.exit(130)
  }
  process.once('SIGINT', () => { stop().catch(() => process.exit(130)) })
  process.once('SIGTERM', () => { stop().catch(() => process.exit(143)) })
  console.log(`${faults.length} scenarios, seed ${first}`)
  for (const [index, fault] of faults.entries()) {
    console.log(`[${index + 1}/${faults.length}] ${fault.name}: ${fault.about}`)
    const say = (line: string) => console.log(`    ${line}`)
    const outcome = await runner.run(fault, { seed: first, full: quick !== true, say })
    outcomes.push(outcome)
    say(outcome.breaches.length > 0
      ? `FAILED: ${outcome.breaches.join('\n      ')}`
      : outcome.skipped ?? `ok: ${outcome.injected} injected, ${outcome.jobs} jobs, ` +
        `${outcome.seconds.toFixed(0)} s`)
  }
  await runner.close()
  return outcomes
}

if (list === true) showList()
else {
  const outcomes = await runAll(chosen())
  console.log(`\n${faultTable(outcomes)}`)
  process.exitCode = outcomes.every(({ breaches }) => breaches.length === 0) ? 0 : 1
}
process.exit()
