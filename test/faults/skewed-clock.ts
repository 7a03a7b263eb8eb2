/**
 * Loaded before a service (`NODE_OPTIONS=--import`): its clock is wrong by CLOCK_OFFSET_MS, and
 * jumps back and forth by CLOCK_JUMP_MS every 10 s of real time. SIGUSR2 sets it right, but for
 * jumps.
 */
let offsetMs = Number(process.env['CLOCK_OFFSET_MS'] ?? 0)
const jumpMs = Number(process.env['CLOCK_JUMP_MS'] ?? 0)
const RealDate = Date

process.on('SIGUSR2', () => { offsetMs = 0 })

function wrongNow (): number {
  const realMs = RealDate.now()
  const jumped = Math.floor(realMs / 10_000) % 2 === 0 ? 0 : jumpMs
  return realMs + offsetMs + jumped
}

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args) =>
    Reflect.construct(target, args.length === 0 ? [wrongNow()] : args) as object,
  apply: () => new RealDate(wrongNow()).toString(),
  get: (target, name) => name === 'now' ? wrongNow : Reflect.get(target, name) as unknown,
})
