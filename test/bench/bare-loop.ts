import { createHmac, createSecretKey } from 'node:crypto'
import { parsePhoneNumberFromString } from 'libphonenumber-js/max'
import { mixedPhones } from './jobs.ts'

/**
 * The baseline of a job: one thread, no I/O, only parsing, validity, type and token of the same
 * rows. Prints the times of the passes after the first, sorted, in milliseconds.
 */
function runPass (inputs: readonly string[]): number {
  const key = createSecretKey(Buffer.alloc(32, 1))
  const startedAt = performance.now()
  let valid = 0
  for (const input of inputs) {
    const number = parsePhoneNumberFromString(input, 'US')
    if (number === undefined) continue
    if (number.isValid() && number.getType() !== undefined) valid++
    createHmac('sha256', key).update(number.number).digest('hex')
  }
  if (valid === 0) throw new Error(`none of ${inputs.length} inputs is a valid number`)
  return performance.now() - startedAt
}

const [, , rows = '100000', passes = '6'] = process.argv
const inputs = mixedPhones(Number(rows))
runPass(inputs)
const warm = Array.from({ length: Number(passes) - 1 }, () => runPass(inputs))
console.log(JSON.stringify({ warmMs: warm.toSorted((a, b) => a - b) }))
