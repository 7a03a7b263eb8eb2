import { installOnce, maven } from '../../../deploy/local/install.ts'
import type { Say } from '../../../deploy/local/parts.ts'
import { findGo, pythonWith } from '../../support/deploy/tools.ts'

const VERSION = '7.25.0'

/** The jar of OpenAPI Generator. It runs with the Java that the local stack needs. */
export async function installGenerator (say: Say): Promise<string> {
  const folder = await installOnce(`openapi-generator-${VERSION}`, async to => {
    say(`downloading OpenAPI Generator ${VERSION} with Maven (32 MB, once)`)
    const artifact = `org.openapitools:openapi-generator-cli:${VERSION}`
    await maven(to, ['dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${to}`])
  })
  return `${folder}/openapi-generator-cli-${VERSION}.jar`
}

/** A Python with what generated clients import. */
export const installClientPython = pythonWith('generated-client', import.meta.dirname,
  'The generated Python client')

/** The Go that generated clients ask for. Throws with advice where there is none. */
export async function requireClientGo (): Promise<string> {
  const go = await findGo(23)
  if (go === undefined) throw new Error('The generated Go client needs Go 1.23: see https://go.dev')
  return go
}
