import { runCommand } from '../platform/run-command.ts'
import { recordCommands } from '../access-log/commands.ts'
import { workspaceActions } from './command-actions.ts'
import { createWorkspaceProgram } from './program.ts'

await runCommand(recordCommands(createWorkspaceProgram(), workspaceActions()))
