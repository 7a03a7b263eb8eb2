/** How many instances of a stage run; a stage that is not named runs once. */
export type Scale = Readonly<Record<string, number>>

const MAX_INSTANCES = 64

/**
 * Reads `normalize=2,verify=3`. Throws with what to write instead when a stage is unknown, named
 * twice, or its number is not from 0 to 64.
 */
export function parseScale (text: string, stages: readonly string[]): Scale {
  const scale: Record<string, number> = {}
  for (const entry of text.split(',').map((part) => part.trim()).filter((part) => part !== '')) {
    const [, stage, digits] = /^([a-z][a-z0-9-]*)=(\d{1,3})$/.exec(entry) ?? []
    if (stage === undefined || Number(digits) > MAX_INSTANCES) {
      throw new Error(`"${entry}" is not <stage>=<number from 0 to ${MAX_INSTANCES}>; ` +
        'an example: normalize=2,verify=3')
    }
    if (!stages.includes(stage)) {
      throw new Error(`There is no stage "${stage}"; the stages are ${stages.join(', ')}`)
    }
    if (stage in scale) throw new Error(`Stage "${stage}" is named twice`)
    scale[stage] = Number(digits)
  }
  return scale
}
