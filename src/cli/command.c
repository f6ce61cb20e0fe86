/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/cli.h"

static const struct command *const commands[] = {
    &command_ask,     &command_backup,  &command_chat,    &command_check,
    &command_cluster, &command_convert, &command_embed,   &command_import,
    &command_model,   &command_query,   &command_restore, &command_status,
};

const struct command_option command_globals[] = {
    { "--url", "URL",
      "Where the server is; http://127.0.0.1:8765 unless THEMIS_URL says otherwise." },
    { "--cacert", "FILE",
      "For https: the authorities to trust instead of the system's; else THEMIS_CACERT." },
    { "--db", "NAME", "The database; _system unless given." },
    { "--json", NULL, "Prints JSON, for scripts." },
    { "--completion", "SHELL", "Prints the completion for bash or zsh and ends." },
    { "--help", NULL, "Prints the usage, of a command when it stands behind one, and ends." },
    { "--version", NULL, "Prints the version and ends." },
    { NULL, NULL, NULL },
};

static const struct command *running;

const struct command *command_at(size_t i)
{
    return i < ARRAY_LEN(commands) ? commands[i] : NULL;
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (!strcmp(name, commands[i]->name))
            return commands[i];
    return NULL;
}

void command_usage(const struct command *command, struct buf *out)
{
    buf_add_str(out, command->name);
    if (*command->arguments)
        buf_printf(out, " %s", command->arguments);
    for (const struct command_option *o = command->options; o && o->name; o++)
        buf_printf(out, o->value ? " [%s %s]" : " [%s]", o->name, o->value);
}

void command_begin(const struct command *command)
{
    running = command;
}

void command_expect(const char *option, bool is_flag)
{
    const struct command_option *o = running ? running->options : command_globals;

    while (o && o->name && strcmp(o->name, option) != 0)
        o++;
    if (!o || !o->name || is_flag != !o->value)
        BUG("%s is not in the table of '%s'", option, running ? running->name : "themis");
}

/* ---- completion ---- */

/* One word for each option of the table, behind a blank each. */
static void add_options(struct buf *out, const struct command_option *o)
{
    for (; o && o->name; o++)
        buf_printf(out, " %s", o->name);
}

/* "--a | --b": options of all tables whose value is, or is not, a file. */
static void add_values(struct buf *out, bool of_files)
{
    const char *between = "";

    for (size_t i = 0; i <= ARRAY_LEN(commands); i++) {
        const struct command_option *o = i ? commands[i - 1]->options : command_globals;
        for (; o && o->name; o++) {
            if (!o->value || of_files != !strcmp(o->value, "FILE"))
                continue;
            buf_printf(out, "%s%s", between, o->name);
            between = " | ";
        }
    }
}

static void print_bash(struct buf *out)
{
    buf_add_str(out, "# Completion of themis for bash; made by: themis --completion bash\n"
                     "_themis() {\n"
                     "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                     "    local command='' words='' i\n"
                     "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                     "        case ${COMP_WORDS[i]} in\n        ");
    add_values(out, false);
    buf_add_str(out, " | ");
    add_values(out, true);
    buf_add_str(out, ") i=$((i + 1)) ;;\n"
                     "        -*) ;;\n"
                     "        *) [ -n \"$command\" ] || command=${COMP_WORDS[i]} ;;\n"
                     "        esac\n"
                     "    done\n"
                     "    COMPREPLY=()\n"
                     "    case $prev in\n"
                     "    --completion) words='bash zsh' ;;\n    ");
    add_values(out, true);
    buf_add_str(out, ") mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") && return ;;\n    ");
    add_values(out, false);
    buf_add_str(out, ") return ;;\n"
                     "    esac\n"
                     "    [ -n \"$words\" ] || case $command in\n"
                     "    '') words='");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        buf_printf(out, "%s%s", i ? " " : "", commands[i]->name);
    add_options(out, command_globals);
    buf_add_str(out, "' ;;\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        buf_printf(out, "    %s) words='%s", commands[i]->name,
                   commands[i]->words ? commands[i]->words : "");
        add_options(out, commands[i]->options);
        add_options(out, command_globals);
        buf_add_str(out, "' ;;\n");
    }
    buf_add_str(out, "    esac\n"
                     "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                     "}\n"
                     "complete -o bashdefault -o default -F _themis themis\n");
}

/* Inside '...[text]' of zsh's _arguments, or '...:text' of _describe. */
static void add_zsh_text(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            buf_add_str(out, "'\\'");
        else if (strchr("[]:\\", *text))
            buf_add_char(out, '\\');
        buf_add_char(out, *text);
    }
}

static void add_zsh_options(struct buf *out, const struct command_option *o)
{
    for (; o && o->name; o++) {
        buf_printf(out, " \\\n            '%s[", o->name);
        add_zsh_text(out, o->help);
        buf_add_char(out, ']');
        if (o->value)
            buf_printf(out, ":%s:%s", o->value,
                       !strcmp(o->value, "FILE")    ? "_files"
                       : !strcmp(o->value, "SHELL") ? "(bash zsh)"
                                                    : "");
        buf_add_char(out, '\'');
    }
}

static void print_zsh(struct buf *out)
{
    buf_add_str(out, "#compdef themis\n"
                     "# Completion of themis for zsh; made by: themis --completion zsh\n"
                     "_themis() {\n"
                     "    local curcontext=$curcontext state line\n"
                     "    local -a commands\n"
                     "    commands=(");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        buf_printf(out, "\n        '%s:", commands[i]->name);
        add_zsh_text(out, commands[i]->help);
        buf_add_char(out, '\'');
    }
    buf_add_str(out, ")\n    _arguments -C");
    add_zsh_options(out, command_globals);
    buf_add_str(out, " \\\n            '1:command:->command' '*::argument:->argument'\n"
                     "    case $state in\n"
                     "    command) _describe command commands ;;\n"
                     "    argument)\n"
                     "        case $words[1] in\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        buf_printf(out, "        %s) _arguments", commands[i]->name);
        add_zsh_options(out, commands[i]->options);
        if (commands[i]->words)
            buf_printf(out, " '1:word:(%s)'", commands[i]->words);
        buf_add_str(out, " '*:file:_files' ;;\n");
    }
    buf_add_str(out, "        esac ;;\n"
                     "    esac\n"
                     "}\n"
                     "_themis \"$@\"\n");
}

bool command_completion(const char *shell, struct buf *out)
{
    if (!strcmp(shell, "bash"))
        print_bash(out);
    else if (!strcmp(shell, "zsh"))
        print_zsh(out);
    else
        return false;
    return true;
}
