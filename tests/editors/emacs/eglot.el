;;; eglot.el --- Flowdrive in a real Emacs, through Eglot -*- lexical-binding: t; -*-
;; Run by run.sh, in batch mode, with FLOWDRIVE_BIN and FLOWDRIVE_WORKSPACE. The configuration between the two lines of
;; dashes is the one that docs/editors.md shows.

(require 'eglot)
(require 'flymake)
(require 'python)

(defvar test-failed 0)

(defmacro deftest (name &rest body)
  "Runs BODY; what it signals is the failure of the test NAME."
  `(condition-case problem
       (progn ,@body (princ (format "ok - %s\n" ,name)))
     (error (setq test-failed (1+ test-failed))
            (princ (format "not ok - %s\n    %s\n" ,name (error-message-string problem))))))

(defun eventually (what fits)
  "Waits until FITS answers non-nil, and hands that on."
  (let ((deadline (+ (float-time) 30)) found)
    (while (and (not (setq found (funcall fits))) (< (float-time) deadline))
      (accept-process-output nil 0.05))
    (or found (error "never happened: %s" what))))

;; ----------------------------------------------------------------------------
(add-to-list 'eglot-server-programs
             `(python-mode . (,(getenv "FLOWDRIVE_BIN") "serve" "--stdio")))

(defun flowdrive-drive (workflow question)
  "Drives WORKFLOW to answer QUESTION about the project of this buffer."
  (interactive "sWorkflow: \nsQuestion: ")
  (jsonrpc-async-request
   (eglot--current-server-or-lose) :workspace/executeCommand
   (list :command "flowdrive.drive"
         :arguments (vector (list :workspace (directory-file-name (expand-file-name (project-root (project-current))))
                                  :workflow (list :id workflow)
                                  :inputs (list :question question))))
   :timeout (* 24 60 60)
   :error-fn (lambda (problem) (message "Flowdrive: %s" (plist-get problem :message)))
   :success-fn (lambda (answer)
                 (message "Flowdrive: %s is %s; %s" (plist-get answer :runId) (plist-get answer :status)
                          (plist-get answer :reportPath)))))
;; ----------------------------------------------------------------------------

(defun server-pid ()
  (process-id (jsonrpc--process (eglot--current-server-or-lose))))

(defvar pid nil)

(setq vc-handled-backends '(Git)
      eglot-sync-connect 10
      python-indent-guess-indent-offset nil)
(find-file (expand-file-name "src/retry.py" (getenv "FLOWDRIVE_WORKSPACE")))

(deftest "Eglot starts the server and is connected"
  (apply #'eglot (eglot--guess-contact))
  (eventually "the connection" #'eglot-managed-p)
  (setq pid (server-pid)))

(defvar said nil "The messages, newest first.")
(advice-add 'message :before (lambda (&rest words) (when (car words) (push (apply #'format words) said))))

(deftest "a drive, as a command of the server, is answered when it ends"
  (flowdrive-drive "quick-survey" "where is the retry limit decided")
  (eventually "the answer" (lambda () (seq-some (lambda (text) (string-prefix-p "Flowdrive: " text)) said)))
  (unless (seq-some (lambda (text) (string-match-p "\\`Flowdrive: quick-survey-.* is complete; " text)) said)
    (error "said: %S" said)))

(deftest "findings are Flymake diagnostics, at the lines that say so"
  (flymake-mode 1)
  (let* ((found (eventually
                 "diagnostics"
                 (lambda ()
                   (flymake-start)
                   (flymake-diagnostics))))
         (lines (mapcar (lambda (one) (line-number-at-pos (flymake-diagnostic-beg one))) found)))
    (dolist (line lines)
      (goto-char (point-min))
      (forward-line (1- line))
      (unless (looking-at-p ".*\\(retry\\|RETRY\\|limit\\|LIMIT\\)")
        (error "line %s does not say so" line)))))

(deftest "the report is where the answer says"
  (let ((text (seq-find (lambda (text) (string-prefix-p "Flowdrive: " text)) said)))
    (unless (file-readable-p (cadr (split-string text "; ")))
      (error "no report: %S" text))))

(deftest "a fault of the server is said"
  (setq said nil)
  (flowdrive-drive "no-such-workflow" "x")
  (eventually "the fault" (lambda () (seq-some (lambda (text) (string-match-p "Flowdrive: .*no-such-workflow" text)) said))))

(deftest "shutting Eglot down leaves no server"
  (eglot-shutdown (eglot--current-server-or-lose))
  (eventually "the server's end" (lambda () (not (process-attributes pid)))))

(princ "# end of eglot.el\n")
(kill-emacs (if (zerop test-failed) 0 1))
