export { commandEnvironment, type Environment } from '../lib/command-environment.ts'
