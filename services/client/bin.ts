import { runProgram } from './run-program.ts'

const { stdin: input, stdout: output, stderr: errors, env } = process

// Told by the command that writes; without a listener it would end the process as a mistake.
output.on('error', () => {})
process.exitCode = await runProgram(process.argv.slice(2), {
  input,
  output,
  errors,
  env,
  onInterrupt: action => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, action)
  },
})
// Work that an interruption left behind would hold the process.
process.exit()
