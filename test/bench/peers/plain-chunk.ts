import { parsePhoneNumberFromString } from 'libphonenumber-js/max'
import { createHmac, createSecretKey } from 'node:crypto'

type PlainResult = {
  readonly input: string
  readonly e164: string
  readonly valid: boolean
  readonly type: string
  readonly token: string
}

const key = createSecretKey(Buffer.alloc(32, 1))

/** Does the work of the bare loop on the inputs of a JSON chunk; returns the results as JSON. */
export function verifyChunk (json: string): string {
  const { inputs } = JSON.parse(json) as { readonly inputs: readonly string[] }
  return JSON.stringify({ rows: inputs.map(resultOf) })
}

function resultOf (input: string): PlainResult {
  const number = parsePhoneNumberFromString(input, 'US')
  if (number === undefined) return { input, e164: '', valid: false, type: '', token: '' }
  return {
    input,
    e164: number.number,
    valid: number.isValid(),
    type: number.getType() ?? '',
    token: createHmac('sha256', key).update(number.number).digest('hex'),
  }
}

/** Brokers, input and output topic of this peer, which exits when its parent disconnects. */
export function peerArguments () {
  process.on('disconnect', () => process.exit())
  const [, , brokers = '', from = '', to = ''] = process.argv
  return { brokers: brokers.split(','), from, to }
}

/** Reports to the parent that this peer has joined its consumer group. */
export function reportReady (): void {
  process.send?.('ready')
}
