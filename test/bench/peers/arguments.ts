/** What a peer is started with. */
export type PeerArguments = {
  readonly brokers: readonly string[]
  /** Topic it reads. */
  readonly from: string
  /** Topic it writes. */
  readonly to: string
}

/** What this peer was started with; it ends with the process that started it. */
export function peerArguments (): PeerArguments {
  process.on('disconnect', () => process.exit())
  const [, , brokers = '', from = '', to = ''] = process.argv
  return { brokers: brokers.split(','), from, to }
}

/** Reports to the starting process that the group is joined. */
export function sayReady (): void {
  process.send?.('ready')
}
