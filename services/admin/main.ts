import { runCommand } from '../platform/run-command.ts'
import { recordCommands } from '../access-log/commands.ts'
import { OPS_ACTIONS } from './command-actions.ts'
import { createOpsProgram } from './program.ts'

await runCommand(recordCommands(createOpsProgram(), OPS_ACTIONS))
