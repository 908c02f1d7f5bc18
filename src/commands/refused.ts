/** A command that will not do what it was asked. */
export class Refused extends Error {
  /**
   * @param code what `--json` prints, and a problem's `code`
   * @param field of the input, where one is to blame
   */
  constructor(
    readonly code:
      | 'usage'
      | 'insufficient_scope'
      | 'already_installed'
      | 'already_running'
      | 'not_running'
      | 'health_check_failed'
      | 'listing_failed'
      | 'confirmation_needed'
      | 'file_exists'
      | 'not_listening'
      | 'not_loadable'
      | 'not_writable'
      | 'not_played',
    message: string,
    readonly field?: string,
  ) {
    super(message)
  }
}
