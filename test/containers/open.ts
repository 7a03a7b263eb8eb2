import type { Say } from '../../deploy/local/parts.ts'
import { freePort } from '../../deploy/local/ports.ts'
import { findEngine, startEngine, type Engine, type OwnEngine } from './engine.ts'
import { makeStandIns, pullImages, withStandIns } from './stand-ins.ts'

type EngineOptions = { readonly ports: readonly number[], readonly say: Say }

/**
 * The engine of this machine if it has the official images or can pull them, else one that is
 * started, with stand-ins where it cannot pull. Throws with the reason where neither is possible.
 */
export async function openEngine (options: EngineOptions): Promise<Engine> {
  const found = await findEngine()
  if (found !== undefined && await hasImages(found)) return found
  return await openOwnEngine(options)
}

/**
 * An engine that is started in namespaces of its own, with stand-ins where it cannot pull. Throws
 * with the reason where that is not possible.
 */
export async function openOwnEngine (options: EngineOptions): Promise<OwnEngine> {
  const started = await startEngine(options)
  try {
    if (await hasImages(started)) return started
    await makeStandIns(started, options.say)
    return withStandIns(started)
  } catch (error) {
    await started.close()
    throw error
  }
}

/** Makes sure that an engine can be opened, and downloads what it needs. */
export async function installEngine (say: Say): Promise<void> {
  const engine = await openEngine({ ports: [await freePort()], say })
  await engine.close()
}

const hasImages = (engine: Engine): Promise<boolean> =>
  pullImages(engine).then(() => true, () => false)
