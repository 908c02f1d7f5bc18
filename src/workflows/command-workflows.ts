/** The commands that run as they are, each a workflow of its name. Made by `npm run docs` of the table of commands. */
export {
  runProgramCommand as 'integrations:acknowledge-incident',
  runProgramCommand as 'integrations:annotate-incident',
  runProgramCommand as 'integrations:audit',
  runProgramCommand as 'integrations:circuit',
  runProgramCommand as 'integrations:delete',
  runProgramCommand as 'integrations:dismiss-webhook',
  runProgramCommand as 'integrations:incidents',
  runProgramCommand as 'integrations:list-tokens',
  runProgramCommand as 'integrations:list-webhooks',
  runProgramCommand as 'integrations:notifications',
  runProgramCommand as 'integrations:oauth-status',
  runProgramCommand as 'integrations:revoke-oauth',
  runProgramCommand as 'integrations:revoke-token',
  runProgramCommand as 'integrations:snooze-incident',
} from './started-commands.ts'
