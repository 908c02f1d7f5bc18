/** The commands that run as they are, each a workflow of its name. Made by `npm run docs` of the table of commands. */
export {
  runProgramCommand as 'integrations:cancel-sync',
  runProgramCommand as 'integrations:circuit',
  runProgramCommand as 'integrations:delete',
  runProgramCommand as 'integrations:finalise-sync-run',
  runProgramCommand as 'integrations:list-sync-items',
  runProgramCommand as 'integrations:list-sync-runs',
  runProgramCommand as 'integrations:list-webhooks',
  runProgramCommand as 'integrations:pause-sync',
  runProgramCommand as 'integrations:resume-sync',
  runProgramCommand as 'integrations:show-sync-run',
  runProgramCommand as 'integrations:sync-interval',
  runProgramCommand as 'integrations:sync-progress',
} from './started-commands.ts'
