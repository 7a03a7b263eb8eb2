import {
  installCompose, installDefinitions, installDockerfileTools, installHelm, installValidator,
} from '../support/deploy-tools.ts'

/** Installs what is missing, one after the other, before any test needs it. */
export default async function setup (): Promise<void> {
  const say = (line: string) => console.log(line)
  await installDockerfileTools(say)
  await installValidator(say)
  await installDefinitions(say)
  await installHelm(say)
  await installCompose(say)
}
