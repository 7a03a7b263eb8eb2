/** Command-line arguments of a peer. */
export type PeerArguments = {
  readonly brokers: readonly string[]
  /** Input topic. */
  readonly from: string
  /** Output topic. */
  readonly to: string
}

/** Reads the arguments of this peer, and makes it exit when its parent disconnects. */
export function peerArguments (): PeerArguments {
  process.on('disconnect', () => process.exit())
  const [, , brokers = '', from = '', to = ''] = process.argv
  return { brokers: brokers.split(','), from, to }
}

/** Reports to the parent that this peer has joined its consumer group. */
export function reportReady (): void {
  process.send?.('ready')
}
