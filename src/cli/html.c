/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree is walked once. Text is gathered with its white space folded; the
 * beginning and the end of a block element break the line:
 *
 *   <h2>Care</h2><p>Water <b>daily</b>.</p>   ->   ## Care
 *
 *                                                  Water daily.
 */
#include "cli/html.h"

#include "base/val_text.h"
#include <libxml/HTMLparser.h>
#include <limits.h>

enum { DEPTH_MAX = 400, TITLE_BYTES_MAX = 300 };

struct writer {
    struct buf *out;
    size_t begin;    /* of the text in out, behind the title's line */
    size_t newlines; /* at the end of out */
    bool has_space;  /* white space is due before the next word */
    bool is_pre;     /* inside <pre>: text as it stands */
    bool in_row;     /* inside <tr>: blocks do not break the line */
};

enum element { INLINE, BLOCK, SKIPPED, HEADING, ITEM, ROW, CELL, PRE, BREAK };

static enum element element_of(const char *name)
{
    static const struct {
        const char *name;
        enum element element;
    } elements[] = {
        { "script", SKIPPED },   { "style", SKIPPED },    { "head", SKIPPED },
        { "template", SKIPPED }, { "noscript", SKIPPED }, { "nav", SKIPPED },
        { "svg", SKIPPED },      { "iframe", SKIPPED },   { "object", SKIPPED },
        { "form", SKIPPED },     { "button", SKIPPED },   { "select", SKIPPED },
        { "textarea", SKIPPED }, { "h1", HEADING },       { "h2", HEADING },
        { "h3", HEADING },       { "h4", HEADING },       { "h5", HEADING },
        { "h6", HEADING },       { "li", ITEM },          { "dt", BLOCK },
        { "dd", BLOCK },         { "tr", ROW },           { "td", CELL },
        { "th", CELL },          { "pre", PRE },          { "br", BREAK },
        { "p", BLOCK },          { "div", BLOCK },        { "section", BLOCK },
        { "article", BLOCK },    { "main", BLOCK },       { "header", BLOCK },
        { "footer", BLOCK },     { "aside", BLOCK },      { "ul", BLOCK },
        { "ol", BLOCK },         { "dl", BLOCK },         { "table", BLOCK },
        { "caption", BLOCK },    { "blockquote", BLOCK }, { "figure", BLOCK },
        { "figcaption", BLOCK }, { "address", BLOCK },    { "details", BLOCK },
        { "summary", BLOCK },    { "hr", BLOCK },         { "body", BLOCK },
    };

    for (size_t i = 0; i < ARRAY_LEN(elements); i++)
        if (strcmp(elements[i].name, name) == 0)
            return elements[i].element;
    return INLINE;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

/* ---- writing ---- */

static void break_line(struct writer *w, size_t newlines)
{
    w->has_space = false;
    if (w->in_row) {
        w->has_space = true;
        return;
    }
    for (; w->out->len > w->begin && w->newlines < newlines; w->newlines++)
        buf_add_char(w->out, '\n');
}

static void add_mark(struct writer *w, const char *mark)
{
    buf_add_str(w->out, mark);
    w->newlines = 0;
    w->has_space = false;
}

static void add_text(struct writer *w, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (w->is_pre) {
            buf_add_char(w->out, c);
            w->newlines = c == '\n' ? w->newlines + 1 : 0;
        } else if (is_space(c)) {
            w->has_space = true;
        } else {
            bool is_inside =
                w->out->len > w->begin && w->newlines == 0 && w->out->ptr[w->out->len - 1] != ' ';
            if (w->has_space && is_inside)
                buf_add_char(w->out, ' ');
            w->has_space = false;
            w->newlines = 0;
            buf_add_char(w->out, c);
        }
    }
}

static void open_element(struct writer *w, enum element e, const char *name)
{
    static const char *const hashes[] = { "# ", "## ", "### ", "#### ", "##### ", "###### " };

    switch (e) {
    case HEADING:
        break_line(w, 2);
        if (!w->in_row)
            add_mark(w, hashes[name[1] - '1']);
        break;
    case ITEM:
        break_line(w, 1);
        if (!w->in_row)
            add_mark(w, "- ");
        break;
    case ROW:
        break_line(w, 1);
        add_mark(w, "|");
        w->in_row = true;
        break;
    case CELL:
        if (w->in_row)
            add_mark(w, " ");
        break;
    case PRE:
        break_line(w, 2);
        if (!w->in_row) {
            add_mark(w, "```\n");
            w->is_pre = true;
        }
        break;
    case BREAK:
        break_line(w, 1);
        break;
    case BLOCK:
        break_line(w, 2);
        break;
    case INLINE:
    case SKIPPED:
        break;
    }
}

static void close_element(struct writer *w, enum element e)
{
    switch (e) {
    case ROW:
        w->in_row = false;
        break_line(w, 1);
        break;
    case CELL:
        if (w->in_row)
            add_mark(w, " |");
        break;
    case PRE:
        if (w->is_pre) {
            w->is_pre = false;
            break_line(w, 1);
            add_mark(w, "```");
        }
        break_line(w, 2);
        break;
    case HEADING:
    case BLOCK:
        break_line(w, 2);
        break;
    case ITEM:
        break_line(w, 1);
        break;
    case INLINE:
    case SKIPPED:
    case BREAK:
        break;
    }
}

/* ---- reading ---- */

static struct slice node_text(const xmlNode *node)
{
    return slice_str(node->content ? (const char *)node->content : "");
}

/* Opens the node; true when its children are to be visited. */
static bool enter(struct writer *w, const xmlNode *node, size_t depth)
{
    enum element e;

    if (node->type == XML_TEXT_NODE || node->type == XML_CDATA_SECTION_NODE)
        add_text(w, node_text(node));
    if (node->type != XML_ELEMENT_NODE)
        return node->type == XML_HTML_DOCUMENT_NODE && node->children;
    e = element_of((const char *)node->name);
    if (e == SKIPPED || depth == DEPTH_MAX)
        return false;
    open_element(w, e, (const char *)node->name);
    if (node->children)
        return true;
    close_element(w, e);
    return false;
}

static void walk(struct writer *w, const xmlNode *root)
{
    const xmlNode *node = root;
    size_t depth = 0;

    while (node) {
        if (enter(w, node, depth)) {
            node = node->children;
            depth++;
            continue;
        }
        while (node && node != root && !node->next) {
            node = node->parent;
            depth--;
            if (node->type == XML_ELEMENT_NODE)
                close_element(w, element_of((const char *)node->name));
        }
        node = node == root ? NULL : node->next;
    }
}

static const xmlNode *find(const xmlNode *parent, const char *name)
{
    for (const xmlNode *n = parent ? parent->children : NULL; n; n = n->next)
        if (n->type == XML_ELEMENT_NODE && strcmp((const char *)n->name, name) == 0)
            return n;
    return NULL;
}

static void write_title(const xmlDoc *doc, struct buf *out)
{
    struct buf title;
    struct writer w = { .out = &title };
    const xmlNode *node = find(find((const xmlNode *)doc, "html"), "head");

    buf_init(&title, TITLE_BYTES_MAX);
    node = find(node, "title");
    for (const xmlNode *n = node ? node->children : NULL; n; n = n->next)
        if (n->type == XML_TEXT_NODE)
            add_text(&w, node_text(n));
    if (!title.is_overfull)
        buf_add_slice(out, buf_slice(&title));
    buf_add_char(out, '\n');
    buf_release(&title);
}

enum errc html_to_markdown(struct slice html, struct buf *out, struct error *err)
{
    const int options =
        HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET;
    bool is_utf8 = utf8_check(html, NULL);
    struct writer w = { .out = out };
    xmlDoc *doc = NULL;

    if (html.len <=
        INT_MAX) /* bytes that are UTF-8 are no other encoding, whatever the page says */
        doc = htmlReadMemory(html.ptr, (int)html.len, NULL, is_utf8 ? "UTF-8" : NULL, options);
    if (!doc || !doc->children) {
        xmlFreeDoc(doc);
        return fail(err, ERR_INVALID, "it is not HTML");
    }
    write_title(doc, out);
    w.begin = out->len;
    walk(&w, (const xmlNode *)doc);
    xmlFreeDoc(doc);
    return OK;
}
